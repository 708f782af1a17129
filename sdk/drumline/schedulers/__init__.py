"""What every program that places pods needs, the standard scheduler included."""
