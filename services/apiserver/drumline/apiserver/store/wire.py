"""Protobuf's wire format, as far as passing on encoded messages needs it.

Source: protobuf.dev/programming-guides/encoding. A field of a message, string or
bytes type is its tag, its length and its content; a message is its fields, one
after another.
"""

from functools import lru_cache


def varint(number: int) -> bytes:
    """Encode a number; one below 0 as the 64 bits that int64 gives it."""
    if 0 <= number < 0x80:
        return bytes((number,))
    number &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@lru_cache(maxsize=8192)
def _head(field: int, length: int) -> bytes:
    return varint(field << 3 | 2) + varint(length)


def message_field(field: int, content: bytes) -> bytes:
    """Encode a field that holds a message, a string or bytes."""
    return _head(field, len(content)) + content


def number_field(field: int, number: int) -> bytes:
    """Encode a field that holds a whole number or an enumeration's value."""
    return varint(field << 3) + varint(number)
