"""One module for each command, or for a few of a kind."""
