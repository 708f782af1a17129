"""Reads what a container has written: all of it or its last lines, to the end or onwards."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

PIECE_BYTES = 256 << 10

# How often a file that is followed is looked at.
_FOLLOW_SECONDS = 0.05
_BLOCK_BYTES = 64 << 10


async def read(
    path: Path, *, tail_lines: int | None, follow: bool, ended: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """Give the file in pieces of at most `PIECE_BYTES`.

    With `follow` it goes on until `ended` says that nothing more will be written.
    A file that is not there yet is empty. Raises OSError.
    """
    offset = 0
    if tail_lines is not None:
        offset = await asyncio.to_thread(_tail_offset, path, tail_lines)
    while True:
        # Asked first: what was written before the end is then read below.
        last = not follow or ended()
        while piece := await asyncio.to_thread(_read_piece, path, offset):
            offset += len(piece)
            yield piece
        if last:
            return
        await asyncio.sleep(_FOLLOW_SECONDS)


def _read_piece(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            return os.pread(file.fileno(), PIECE_BYTES, offset)
    except FileNotFoundError:
        return b""


def _tail_offset(path: Path, lines: int) -> int:
    """Give where the last `lines` lines begin; text after the last line break is a line too."""
    try:
        with path.open("rb") as file:
            descriptor = file.fileno()
            size = os.fstat(descriptor).st_size
            if lines <= 0 or size == 0:
                return size
            # The line break at the very end closes the last line, and starts none.
            position = size - 1
            while position > 0:
                start = max(0, position - _BLOCK_BYTES)
                block = os.pread(descriptor, position - start, start)
                found = len(block)
                while (found := block.rfind(b"\n", 0, found)) >= 0:
                    lines -= 1
                    if lines == 0:
                        return start + found + 1
                position = start
            return 0
    except FileNotFoundError:
        return 0
