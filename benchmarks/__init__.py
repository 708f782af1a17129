"""Measures Drumline on this machine: ``python -m benchmarks --help``."""
