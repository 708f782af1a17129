"""How commands fail: one sentence, what to do next, and an exit code (docs/cli.md)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from drumline.model.errors import DrumlineError

FAILED: Final = 1
"""Refused, or it did not work out; also an end other than the one waited for."""
USAGE: Final = 2
"""The command line, or a manifest, is wrong; nothing was sent."""
NOT_FOUND: Final = 3
TIMED_OUT: Final = 4
UNREACHABLE: Final = 5
"""No cluster to talk to, or it does not answer now; trying again may help."""
INTERRUPTED: Final = 130


class CommandError(Exception):
    """A command failed: a sentence, what to do next ("" when that is plain), an exit code."""

    def __init__(self, text: str, advice: str = "", code: int = FAILED) -> None:
        super().__init__(text)
        self.text = text
        self.advice = advice
        self.code = code


def say(text: str, advice: str = "") -> None:
    """Write a failure to standard error."""
    print(f"error: {text}", file=sys.stderr)
    if advice:
        print(f"       {advice}", file=sys.stderr)


def code_of(error: DrumlineError) -> int:
    """Give the exit code for an error."""
    from drumline.model import errors

    if error.reason in {"NO_CONTEXT", "BAD_CONTEXT"}:
        return UNREACHABLE
    if isinstance(error, errors.NotFoundError):
        return NOT_FOUND
    if isinstance(error, errors.UnavailableError):
        return UNREACHABLE
    if isinstance(error, errors.DeadlineExceededError):
        return TIMED_OUT
    return FAILED


def advice_for(error: DrumlineError) -> str:
    """Say what to do next, where the error's own sentence does not."""
    from drumline.model import errors

    if error.reason == "UNREACHABLE":
        return "Is the cluster running? `drumline up` starts a local one."
    if isinstance(error, errors.UnavailableError) and "try again" not in error.message:
        return "This is temporary: try again in a moment."
    if isinstance(error, errors.DeadlineExceededError):
        return "What came of it is not known: look, then try again."
    if isinstance(error, errors.ConflictError):
        return "It was changed meanwhile: look at it again, then decide."
    if isinstance(error, errors.PermissionDeniedError):
        return "`drumline version` says who the cluster takes you for."
    return ""


def from_error(error: DrumlineError) -> CommandError:
    """Give the failure of a command that an error of the API means."""
    return CommandError(error.message, advice_for(error), code_of(error))


def note(text: str) -> None:
    """Write something that is no failure, and no result either, to standard error."""
    print(text, file=sys.stderr)
