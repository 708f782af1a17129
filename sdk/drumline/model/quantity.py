"""Quantities of resources as people write them: ``500m``, ``0.5``, ``64Mi``, ``1e3``.

The grammar is that of Kubernetes manifests: a decimal number, then an exponent
(``e`` or ``E`` and an integer) or a suffix, either a power of ten (``n u m k M G
T P E``) or of 1024 (``Ki Mi Gi Ti Pi Ei``). Arithmetic is on integers only: a
quantity is exact in the unit that is asked for, or refused.
"""

import re
from typing import Final

MAXIMUM: Final = 10**15
"""The greatest amount of anything, in base units (bytes) or thousandths."""

MAXIMUM_LENGTH: Final = 64
"""Characters in a quantity."""

_QUANTITY = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i))?"
)

_POWERS_OF_TEN = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}

# With at most 64 characters before it, an exponent beyond this one takes any
# number but zero out of range, whatever its digits: no such power is computed.
_MAXIMUM_EXPONENT = 100

_ACCEPTED = (
    "write a number such as 2, 0.5, 100m, 64Mi or 1e3; "
    "suffixes are n u m k M G T P E and Ki Mi Gi Ti Pi Ei"
)


def parse_quantity(text: str, *, thousandths: bool) -> int:
    """Give the amount that the text means, in base units, or in thousandths of them.

    Raises ValueError, with a sentence that says what is wrong and what is
    accepted, when the text is malformed or longer than 64 characters, and when
    the amount is negative, above 10^15 in the unit of the result, or not whole in it.
    """
    if len(text) > MAXIMUM_LENGTH:
        raise ValueError(
            f"{text[:16] + '…'!r} has {len(text)} characters; "
            f"a quantity has at most {MAXIMUM_LENGTH}"
        )
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity: {_ACCEPTED}")
    sign, whole, fraction, exponent, suffix = match.groups(default="")
    if not whole and not fraction:
        raise ValueError(f"{text!r} is not a quantity, it has no digits: {_ACCEPTED}")
    digits = int(whole + fraction)
    if digits == 0:
        return 0
    if sign == "-":
        raise ValueError(f"{text!r} is negative; an amount is 0 or more")
    power = int(exponent or 0)
    if abs(power) <= _MAXIMUM_EXPONENT:
        power += _POWERS_OF_TEN.get(suffix, 0) - len(fraction) + (3 if thousandths else 0)
        amount, rest = _scaled(digits * _BINARY.get(suffix, 1), power)
    else:
        amount, rest = (MAXIMUM + 1, 0) if power > 0 else (0, 1)
    unit = "thousandths" if thousandths else "units"
    if amount > MAXIMUM or (amount == MAXIMUM and rest):
        raise ValueError(f"{text!r} is too large; an amount is at most 10^15 {unit}")
    if rest:
        finest = "a thousandth (1m)" if thousandths else "one unit"
        raise ValueError(f"{text!r} is not a whole number of {unit}; the finest step is {finest}")
    return amount


def _scaled(number: int, power: int) -> tuple[int, int]:
    """Give number · 10^power, rounded down, and what was lost by that (0 when exact)."""
    scale: int = 10 ** abs(power)
    return (number * scale, 0) if power >= 0 else divmod(number, scale)


def format_cpu(millicores: int) -> str:
    """Write processor time: ``2``, ``500m``."""
    cores, rest = divmod(millicores, 1000)
    return f"{millicores}m" if rest else str(cores)


def format_memory(amount: int) -> str:
    """Write bytes exactly, in the largest unit that allows it: ``64Mi``, ``128M``, ``1001``.

    Of a binary and a decimal unit the one with the shorter number is taken, the
    binary one when they are equal.
    """
    return min(_whole(amount, 1024, _BINARY), _whole(amount, 1000, "kMGTPE"), key=len)


def _whole(amount: int, step: int, suffixes: "dict[str, int] | str") -> str:
    written = str(amount)
    for suffix in suffixes:
        amount, rest = divmod(amount, step)
        if rest or not amount:
            break
        written = f"{amount}{suffix}"
    return written


def format_thousandths(amount: int) -> str:
    """Write an amount given in thousandths as a decimal number: ``2.5``, ``1``."""
    sign = "-" if amount < 0 else ""
    whole, rest = divmod(abs(amount), 1000)
    return f"{sign}{whole}.{rest:03}".rstrip("0") if rest else f"{sign}{whole}"
