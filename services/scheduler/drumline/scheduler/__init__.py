"""The scheduler: places pods on nodes, and says why where it cannot."""
