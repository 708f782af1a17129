"""`drumline status`: the cluster at a glance."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from drumline.cli import output
from drumline.cli.session import with_client

if TYPE_CHECKING:
    from drumline.client import Client


def status() -> None:
    """Show the cluster at a glance."""
    output.out(with_client(_status))


async def _status(client: Client) -> str:
    from drumline.cli import views
    from drumline.client import context
    from drumline.process import clock

    now = clock.wall()
    version = await client.version()
    components = await client.components()
    nodes = Counter([views.node_status(node) async for node in client.list_nodes()])
    pods = Counter([views.pod_status(pod) async for pod in client.list_pods()])
    used = context.load()
    text = output.facts(
        [
            ("Cluster", ", ".join(used.addresses)),
            ("Version", f"{version.version} on etcd {version.etcd_version}"),
            ("State", str(used.state_dir) if used.state_dir else ""),
            ("Nodes", _counted(nodes)),
            ("Pods", _counted(pods)),
        ]
    )
    rows = [
        [c.kind, c.instance, c.version or "-", c.address, output.age(c.since, now) or "-"]
        for c in components
    ]
    return text + "\n" + output.table(("COMPONENT", "INSTANCE", "VERSION", "ADDRESS", "UP"), rows)


def _counted(counts: Counter[str]) -> str:
    if not counts:
        return "none"
    parts = (f"{number} {word}" for word, number in sorted(counts.items()))
    return f"{counts.total()}: {', '.join(parts)}"
