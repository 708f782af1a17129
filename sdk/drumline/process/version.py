"""Drumline's version, in the one place that knows it."""

from importlib.metadata import version

VERSION = version("drumline")
