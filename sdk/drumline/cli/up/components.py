"""The processes of a local cluster: their command lines, and the order in which they end. Pure."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drumline.cli.up.state import Plan, StateFolder

# Pods are ended with their kubelets, which takes up to 8 seconds; every process
# ends within 10 by itself.
END_SECONDS = 12.0


@dataclass(frozen=True, slots=True)
class Component:
    """One process."""

    name: str
    command: list[str]
    end_turn: int
    """When the cluster ends: first 0, then 1, and so on; those of one turn together."""


def components(plan: Plan, folder: StateFolder, etcd: Sequence[str]) -> list[Component]:
    """Give the processes, in the order in which they are started."""
    apiserver = f"--apiserver={plan.address('apiserver')}"
    nodecontroller = f"--nodecontroller={plan.address('nodecontroller')}"
    found = [
        Component("etcd", list(etcd), 3),
        Component(
            "apiserver",
            [
                *_program("apiserver"),
                f"--listen-address={plan.address('apiserver')}",
                f"--etcd={plan.address('etcd')}",
                f"--etcd-ca={folder.etcd_tls / 'ca.crt'}",
                f"--etcd-certificate={folder.etcd_tls / 'apiserver.crt'}",
                f"--etcd-key={folder.etcd_tls / 'apiserver.key'}",
                *_tls(folder, "apiserver"),
            ],
            2,
        ),
        Component(
            "nodecontroller",
            [
                *_program("nodecontroller"),
                f"--listen-address={plan.address('nodecontroller')}",
                apiserver,
                *_tls(folder, "nodecontroller"),
            ],
            1,
        ),
        Component(
            "scheduler",
            [
                *_program("scheduler"),
                f"--listen-address={plan.address('scheduler')}",
                apiserver,
                *_tls(folder, "scheduler"),
            ],
            1,
        ),
    ]
    for node in plan.node_names:
        arguments = [
            f"--node-name={node}",
            f"--state-dir={folder.nodes / node}",
            "--stop-pods-at-exit=true",
            apiserver,
            nodecontroller,
            *_tls(folder, node),
        ]
        found.append(Component(node, [*_program("kubelet"), *arguments], 0))
    if plan.simulated_nodes:
        arguments = [
            "--runtime=simulated",
            f"--simulated-nodes={plan.simulated_nodes}",
            apiserver,
            nodecontroller,
            *_tls(folder, "simulator"),
        ]
        found.append(Component("simulator", [*_program("kubelet"), *arguments], 0))
    return found


def _tls(folder: StateFolder, name: str) -> list[str]:
    return [
        f"--tls-ca={folder.tls / 'ca.crt'}",
        f"--tls-certificate={folder.tls / name}.crt",
        f"--tls-key={folder.tls / name}.key",
    ]


def _program(process: str) -> list[str]:
    """Give how a process is started: its script beside this interpreter, or the module itself."""
    script = Path(sys.executable).parent / f"drumline-{process}"
    if script.exists():
        return [sys.executable, str(script)]
    start = f"import sys; from drumline.{process}.main import main; sys.exit(main())"
    return [sys.executable, "-c", start]
