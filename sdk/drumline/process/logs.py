"""Structured lines on standard error: an event in snake_case, and its fields.

Lines are JSON when standard error is no terminal, or coloured text when it is. What
cannot be written, as on a full disk, is lost: no process stops working for its log.
"""

import contextlib
import logging
import sys
from typing import TextIO, cast

import structlog

LEVELS = ("debug", "info", "warning", "error")


def configure(component: str, level: str = "info") -> None:
    """Set up logging for the whole process; `level` is one of `LEVELS`."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderers: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if sys.stderr.isatty()
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=shared + renderers,
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(file=cast("TextIO", _Lines())),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(component=component)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(name)s: %(message)s")


class _Lines:
    """Standard error, as far as it can be written."""

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.flush()


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """Give the logger of a module."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(module=name)
    return logger
