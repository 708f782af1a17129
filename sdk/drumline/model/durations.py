"""Durations as people write them: ``50ms``, ``1.5s``, ``2m``, ``1h30m``."""

import re
from typing import Final

MAXIMUM_SECONDS: Final = 365 * 86_400.0
"""The longest duration, in seconds."""

_MAXIMUM_LENGTH = 32
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Give the seconds that the text means, 0 to a year.

    The text is one or more numbers, each with a unit (ms, s, m, h), which are
    added up; a bare ``0`` is accepted too. Raises ValueError with a sentence.
    """
    if text == "0":
        return 0.0
    if len(text) > _MAXIMUM_LENGTH or not _DURATION.fullmatch(text):
        shown = text if len(text) <= _MAXIMUM_LENGTH else text[:16] + "…"
        raise ValueError(
            f"{shown!r} is not a duration: write a number with its unit (ms, s, m or h), "
            "such as 50ms, 1.5s, 2m or 1h30m"
        )
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if seconds > MAXIMUM_SECONDS:
        raise ValueError(f"{text!r} is too long; a duration is at most a year (8760h)")
    return seconds
