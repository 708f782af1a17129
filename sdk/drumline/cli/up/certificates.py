"""Which certificates a cluster needs: one a process, one a node, one for the user."""

from __future__ import annotations

import datetime
import socket
from collections.abc import Sequence
from pathlib import Path

from drumline.model import names
from drumline.process import pki

USER = "admin"
"""The user whose certificate `drumline up` makes; a group of that name is theirs too."""

_ANYWHERE = ("localhost", "127.0.0.1", "::1")


def requests(
    nodes: Sequence[str], hosts: Sequence[str], schedulers: Sequence[str] = ()
) -> list[pki.CertificateRequest]:
    """Say what is asked of the cluster's CA; every process is reached at `hosts` too.

    `schedulers` are the names of others than the standard one; each has its own files,
    scheduler-NAME.
    """
    everywhere = list(dict.fromkeys([*_ANYWHERE, *_own_name(), *hosts]))
    scheduler = names.IDENTITY_SCHEDULER_PREFIX + names.DEFAULT_SCHEDULER
    identities = {
        "etcd": "system:etcd",
        "apiserver": names.IDENTITY_APISERVER,
        "scheduler": scheduler,
        **{f"scheduler-{name}": names.IDENTITY_SCHEDULER_PREFIX + name for name in schedulers},
        "nodecontroller": names.IDENTITY_NODECONTROLLER,
        "simulator": names.IDENTITY_SIMULATOR,
        **{node: names.IDENTITY_NODE_PREFIX + node for node in nodes},
    }
    asked = [
        pki.CertificateRequest(name, identity, hosts=list(dict.fromkeys([*everywhere, name])))
        for name, identity in identities.items()
    ]
    return [*asked, pki.CertificateRequest(USER, USER, groups=(USER,), hosts=everywhere)]


def ensure(
    folder: Path,
    nodes: Sequence[str],
    now: datetime.datetime,
    hosts: Sequence[str] = (),
    schedulers: Sequence[str] = (),
) -> list[str]:
    """Make what the folder lacks, or what has expired; give the names of all files in it."""
    asked = requests(nodes, hosts, schedulers)
    pki.ensure_certificates(folder, asked, now)
    return ["ca", *(request.name for request in asked)]


def _own_name() -> list[str]:
    """Give the host's name, where it can stand in a certificate."""
    name = socket.gethostname().lower()
    return [name] if name.isascii() and name else []
