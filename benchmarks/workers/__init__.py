"""Processes that make a benchmark's load, or take what it causes: `benchmarks.worker`."""
