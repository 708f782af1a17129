"""Async client of Drumline's public API; `Client` is where to start."""

from drumline.client.client import Client
from drumline.client.events import Changed, Event, Removed, Synced
from drumline.client.pods import reference
from drumline.client.results import Result

__all__ = ["Changed", "Client", "Event", "Removed", "Result", "Synced", "reference"]
