"""A cluster on this machine: its state folder, its processes, their supervision."""
