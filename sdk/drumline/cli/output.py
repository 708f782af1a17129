"""Text for people: tables, ages, times."""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from drumline.cli.failures import CommandError

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

_GAP = "   "


class Table:
    """Columns as wide as their first rows need; later rows are laid out the same."""

    def __init__(self, headings: Sequence[str]) -> None:
        self._headings = headings
        self._widths: list[int] = []

    def text(self, rows: Iterable[Sequence[str]]) -> str:
        """Lay rows out, with the headings above the first ones."""
        listed = [list(row) for row in rows]
        lines = []
        if not self._widths:
            columns = zip(self._headings, *listed, strict=True)
            self._widths = [max(map(len, column)) for column in columns]
            lines.append(self._line(self._headings))
        lines += [self._line(row) for row in listed]
        return "".join(f"{line}\n" for line in lines)

    def _line(self, cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        return _GAP.join(padded).rstrip()


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "") -> str:
    """Lay a whole table out."""
    text = Table(headings).text(rows)
    return "".join(f"{indent}{line}\n" for line in text.splitlines()) if indent else text


def facts(pairs: Iterable[tuple[str, str]], indent: str = "") -> str:
    """Lay names and values out, one pair a line; pairs without a value are left out."""
    kept = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in kept), default=0) + 1
    return "".join(f"{indent}{name + ':':<{width}}  {value}\n" for name, value in kept)


def out(text: str) -> None:
    """Write to standard output, at once. Raises CommandError when it takes no more."""
    with _telling_failures():
        sys.stdout.write(text)
        sys.stdout.flush()


def out_bytes(data: bytes) -> None:
    """Write to standard output as it is, at once. Raises CommandError as `out` does."""
    with _telling_failures():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextlib.contextmanager
def _telling_failures() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # A reader that has seen enough, such as `head`: typer ends quietly.
        raise
    except OSError as error:
        # What is still held would fail again, unexplained, when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise CommandError(f"standard output cannot be written: {error.strerror}") from error


def age(since: Timestamp, now: datetime.datetime) -> str:
    """Say how long ago something was, in its largest unit or two: 5s, 3m20s, 2h5m, 4d."""
    if not since.seconds:
        return ""
    return span((now - since.ToDatetime(datetime.UTC)).total_seconds())


def span(seconds: float) -> str:
    """Write a length of time, in its largest unit or two."""
    whole = max(int(seconds), 0)
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d{hours}h" if hours and days < 7 else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    if minutes:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    return f"{whole}s"


def moment(stamp: Timestamp) -> str:
    """Write a time to the second, in UTC; empty for none."""
    if not stamp.seconds:
        return ""
    return stamp.ToDatetime(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def count(number: int, noun: str, plural: str = "") -> str:
    """Write a number with its noun: 1 pod, 3 pods."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
