"""What every process of Drumline shares, so that all start, serve, log and end alike."""
