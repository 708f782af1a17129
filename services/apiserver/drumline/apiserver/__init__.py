"""The apiserver: stores what users want, arbitrates assignments, tells everyone what changes."""
