"""Where manifests come from: files, folders, standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from drumline.cli.failures import USAGE, CommandError

if TYPE_CHECKING:
    from drumline.cli.manifest import Document

_SUFFIXES = {".yaml", ".yml", ".json"}


def documents(named: Iterable[str], *, recursive: bool) -> list[Document]:
    """Read every object of the named files and folders, "-" being standard input.

    Raises CommandError with all that is wrong in all of them.
    """
    from drumline.cli import manifest

    found: list[Document] = []
    problems: list[manifest.Problem] = []
    for name in named:
        for path in [None] if name == "-" else _files(Path(name), recursive):
            try:
                data = sys.stdin.buffer.read(_bound()) if path is None else _content(path)
                found += manifest.read(data, "<stdin>" if path is None else str(path))
            except manifest.ManifestError as error:
                problems += error.problems
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        noun = "problem" if len(problems) == 1 else "problems"
        raise CommandError(
            f"{len(problems)} {noun} in what was given; nothing was sent:\n{listed}", code=USAGE
        )
    if not found:
        raise CommandError("there is no object in what was given", code=USAGE)
    return found


def _files(path: Path, recursive: bool) -> list[Path]:
    if path.is_dir():
        inside = path.rglob("*") if recursive else path.iterdir()
        files = sorted(p for p in inside if p.suffix in _SUFFIXES and p.is_file())
        if not files:
            raise CommandError(
                f"there is no .yaml, .yml or .json file in {path}",
                "" if recursive else "With -R its sub-folders are read too.",
                USAGE,
            )
        return files
    if not path.exists():
        raise CommandError(f"{path} does not exist", code=USAGE)
    return [path]


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_bound())
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", code=USAGE) from error


def _bound() -> int:
    """One byte more than is read of a file: enough to see that it is too large."""
    from drumline.cli.documents import MAXIMUM_BYTES

    return MAXIMUM_BYTES + 1
