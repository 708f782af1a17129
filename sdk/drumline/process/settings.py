"""Settings of a process: one frozen dataclass, built once, passed down.

Each field is declared with `setting` and can be given, in order of precedence,
as a flag (``--listen-address``), in the environment
(``DRUMLINE_APISERVER_LISTEN_ADDRESS``) or in a TOML file named by ``--config``
(``listen_address = "…"``). Lists are separated by commas in flags and in the
environment. An unknown or bad setting ends the start with its name.
"""

import argparse
import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

S = TypeVar("S")


class SettingsError(Exception):
    """A setting is unknown or bad; the message names it and says what would be right."""


def setting(default: Any, doc: str, *, minimum: float | None = None) -> Any:
    """Declare a field: its default, what it does (with its unit), the least that is allowed."""
    return dataclasses.field(default=default, metadata={"doc": doc, "minimum": minimum})


def load(cls: type[S], process: str, argv: Sequence[str], environ: Mapping[str, str]) -> S:
    """Build the settings of `process` from flags, environment and file.

    Raises `SettingsError`; ``--help`` prints every setting and exits.
    """
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    parser = argparse.ArgumentParser(
        prog=f"drumline-{process}", description=(cls.__doc__ or "").strip(), allow_abbrev=False
    )
    parser.add_argument("--config", metavar="FILE", help="TOML file with settings")
    for name, declared in fields.items():
        default = declared.default
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
        parser.add_argument(
            "--" + name.replace("_", "-"),
            metavar=_kind_name(hints[name]),
            help=f"{declared.metadata['doc']} (default: {shown})".replace("%", "%%"),
        )
    given = parser.parse_args(argv)
    prefix = f"DRUMLINE_{process.upper().replace('-', '_')}_"
    raw: dict[str, tuple[str, Any]] = {}
    config = given.config or environ.get(prefix + "CONFIG")
    if config:
        for key, value in _read_file(Path(config)).items():
            raw[key] = (f"{key} in {config}", value)
    for variable, value in environ.items():
        if variable.startswith(prefix) and variable != prefix + "CONFIG":
            raw[variable.removeprefix(prefix).lower()] = (variable, value)
    for name in fields:
        value = getattr(given, name)
        if value is not None:
            raw[name] = ("--" + name.replace("_", "-"), value)
    values = {}
    for name, (source, value) in raw.items():
        if name not in fields:
            raise SettingsError(
                f"{source} is not a setting of {parser.prog}; see {parser.prog} --help"
            )
        values[name] = _convert(source, hints[name], value, fields[name].metadata["minimum"])
    return cls(**values)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"cannot read the settings in {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error


def _kind_name(kind: Any) -> str:
    return {bool: "true|false", int: "NUMBER", float: "SECONDS", Path: "PATH"}.get(kind, "TEXT")


def _convert(source: str, kind: Any, value: Any, minimum: float | None) -> Any:
    if kind == tuple[str, ...]:
        items = value if isinstance(value, list) else str(value).split(",")
        return tuple(str(item).strip() for item in items if str(item).strip())
    if kind is bool:
        text = str(value).lower()
        if text not in {"true", "false"}:
            raise SettingsError(f"{source} is {value!r}, and must be true or false")
        return text == "true"
    if kind in {int, float}:
        try:
            number = kind(value)
        except (TypeError, ValueError):
            what = "a whole number" if kind is int else "a number"
            raise SettingsError(f"{source} is {value!r}, and must be {what}") from None
        if number != number or (minimum is not None and number < minimum):  # noqa: PLR0124 - NaN
            raise SettingsError(f"{source} is {value}, and must be at least {minimum}")
        return number
    return Path(str(value)) if kind is Path else str(value)
