"""Contexts: which cluster the user's commands are meant for, and who the user is.

A context is a TOML file::

    addresses = ["127.0.0.1:7400"]      # the apiservers, HOST:PORT
    ca = "tls/ca.crt"                   # the cluster's certificate authority
    certificate = "tls/admin.crt"       # who the user is
    key = "tls/admin.key"

Paths are relative to the file's own folder. The file is the one that the
environment names in ``DRUMLINE_CONTEXT``, or ``~/.config/drumline/context.toml``.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drumline.model.errors import FailedPreconditionError
from drumline.process.tls import TlsFiles

VARIABLE = "DRUMLINE_CONTEXT"

_PATHS = ("ca", "certificate", "key")
# Written by `drumline up`, for people and for itself: whose context this is.
_NOTES = ("state_dir",)


@dataclass(frozen=True, slots=True)
class Context:
    """A cluster, and who its user is."""

    addresses: tuple[str, ...]
    """Apiservers, HOST:PORT each."""
    tls: TlsFiles
    """The user's certificate and key, and the CA that the cluster's certificates are of."""
    state_dir: Path | None = None
    """State folder of the local cluster that wrote the context, where one did."""


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Give the file that is read when no other is named."""
    named = environ.get(VARIABLE)
    if named:
        return Path(named)
    config = environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "drumline" / "context.toml"


def load(path: Path | None = None) -> Context:
    """Read a context; without `path` the default one.

    Raises FailedPreconditionError, reason NO_CONTEXT when there is no such file
    and BAD_CONTEXT when it cannot be used; the message says what to do.
    """
    path = path or default_path()
    return _context(path, _values(path))


def state_dir_of(path: Path) -> Path | None:
    """Give the state folder of the local cluster that wrote a context; None when none did.

    Also when the certificates that it names are gone. Raises as `load` does.
    """
    return _state_dir(path, _values(path))


def _values(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FailedPreconditionError(
            f"there is no cluster to talk to: {path} does not exist; start one with "
            f"`drumline up`, or name a context file in {VARIABLE}",
            reason="NO_CONTEXT",
            metadata={"path": str(path)},
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _bad(path, str(error)) from error


def save(path: Path, context: Context) -> None:
    """Write a context; an older file is replaced at once. Raises OSError.

    Certificates in the file's own folder are named relative to it, so that the folder
    can be copied; all other paths are absolute.
    """
    paths = zip(_PATHS, (context.tls.ca, context.tls.certificate, context.tls.key), strict=True)
    lines = [f"addresses = {json.dumps(list(context.addresses))}"]
    lines += [f"{name} = {_quoted(_from(path.parent, value))}" for name, value in paths]
    if context.state_dir is not None:
        lines.append(f"state_dir = {_quoted(context.state_dir.absolute())}")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    temporary.replace(path)


def _from(folder: Path, path: Path) -> Path:
    folder, path = folder.absolute(), path.absolute()
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def _quoted(path: Path) -> str:
    # TOML knows no pairs of surrogates, which JSON makes of some characters.
    return json.dumps(str(path), ensure_ascii=False)


def _context(path: Path, values: dict[str, Any]) -> Context:
    unknown = sorted(set(values) - {"addresses", *_PATHS, *_NOTES})
    if unknown:
        raise _bad(path, f"{unknown[0]!r} is not known")
    addresses = values.get("addresses")
    if (
        not isinstance(addresses, list)
        or not addresses
        or not all(isinstance(a, str) and _is_address(a) for a in addresses)
    ):
        raise _bad(path, '"addresses" must be a list of HOST:PORT')
    found: dict[str, Path] = {}
    for name in _PATHS:
        value = values.get(name)
        if not isinstance(value, str) or not value:
            raise _bad(path, f'"{name}" must be the path of a PEM file')
        found[name] = path.parent / value
        if not found[name].is_file():
            raise _bad(path, f"{name} = {str(found[name])!r} does not exist")
    return Context(
        tuple(addresses),
        TlsFiles(found["ca"], found["certificate"], found["key"]),
        _state_dir(path, values),
    )


def _state_dir(path: Path, values: dict[str, Any]) -> Path | None:
    state = values.get("state_dir")
    return path.parent / state if isinstance(state, str) else None


def _is_address(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) < 65536


def _bad(path: Path, why: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"the context file {path} cannot be used: {why}; mend it, or let `drumline up` write it",
        reason="BAD_CONTEXT",
        metadata={"path": str(path)},
    )
