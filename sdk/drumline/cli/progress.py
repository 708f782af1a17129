"""Shows that something goes on: one line that changes on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from drumline.cli import output

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """A line on standard error, while the block runs."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._status: Status | None = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(self._text)
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def update(self, text: str) -> None:
        """Change the line."""
        if self._status is not None:
            self._status.update(text)

    def say(self, text: str) -> None:
        """Write a line that stays, to standard output."""
        if self._status is not None:
            self._status.stop()
        output.out(f"{text}\n")
        if self._status is not None:
            self._status.start()
