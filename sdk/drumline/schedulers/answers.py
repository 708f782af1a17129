"""What refusals of proposals mean to a scheduler, by their reasons (docs/schedulers.md)."""

from typing import Final

SESSION_ENDED: Final = "SESSION_ENDED"
"""Another decides, or nobody; also of a whole call."""

NOT_TO_PLACE: Final = frozenset(
    {"POD_NOT_FOUND", "POD_BEING_DELETED", "POD_ENDED", "ALREADY_ASSIGNED", "WRONG_SCHEDULER"}
)
"""The pod needs no node any more, or none from here."""
