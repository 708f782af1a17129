"""Lists at a revision that the cache has moved past: read from etcd as of then."""

from collections.abc import Callable
from typing import Any, TypeVar

from drumline.apiserver.cache.objects import (
    Entry,
    NamespaceEntry,
    NodeEntry,
    PodEntry,
    join_namespace,
    join_node,
    join_pod,
)
from drumline.apiserver.store.etcd import Etcd
from drumline.apiserver.store.kinds import (
    ASSIGNMENTS,
    NAMESPACES,
    NODE_INFOS,
    NODE_LOADS,
    NODE_STATUSES,
    NODES,
    POD_STATUSES,
    PODS,
    QUOTA_USES,
    Kind,
    Record,
    parse_key,
)

E = TypeVar("E", bound=Entry)

Table = dict[str, Record]


async def pods_at(etcd: Etcd, revision: int, after: str, limit: int) -> list[PodEntry]:
    """Give the first `limit` pods behind the key `after`. Raises OutOfRangeError when compacted."""

    def join(name: str, tables: list[Table]) -> PodEntry:
        pods, assignments, statuses = tables
        return join_pod(name, pods[name], assignments.get(name), statuses.get(name), None)

    kinds = (PODS, ASSIGNMENTS, POD_STATUSES)
    return await _read(etcd, revision, after, limit, kinds, join)


async def nodes_at(etcd: Etcd, revision: int, after: str, limit: int) -> list[NodeEntry]:
    """Give the first `limit` nodes behind the key `after`."""

    def join(name: str, tables: list[Table]) -> NodeEntry:
        nodes, infos, states, loads = tables
        return join_node(name, nodes[name], infos[name], states.get(name), loads.get(name), None)

    kinds = (NODES, NODE_INFOS, NODE_STATUSES, NODE_LOADS)
    return await _read(etcd, revision, after, limit, kinds, join)


async def namespaces_at(etcd: Etcd, revision: int, after: str, limit: int) -> list[NamespaceEntry]:
    """Give the first `limit` namespaces behind the key `after`."""

    def join(name: str, tables: list[Table]) -> NamespaceEntry:
        namespaces, usages = tables
        return join_namespace(name, namespaces[name], usages.get(name))

    return await _read(etcd, revision, after, limit, (NAMESPACES, QUOTA_USES), join)


async def _read(
    etcd: Etcd,
    revision: int,
    after: str,
    limit: int,
    kinds: tuple[Kind[Any], ...],
    join: Callable[[str, list[Table]], E],
) -> list[E]:
    first = kinds[0].key(after) + (b"\0" if after else b"")
    # '0' is the character behind '/': the end of the kind's keys.
    end = f"{kinds[0].prefix}0".encode()
    found = await etcd.read(first, end, revision=revision, limit=limit)
    names = [parse_key(item.key)[1] for item in found.items]
    if not names:
        return []
    tables: list[Table] = [
        {n: Record(i.value or b"", i.revision) for n, i in zip(names, found.items, strict=True)}
    ]
    for kind in kinds[1:]:
        rest = await etcd.read(kind.key(names[0]), kind.key(names[-1]) + b"\0", revision=revision)
        tables.append({parse_key(i.key)[1]: Record(i.value or b"", i.revision) for i in rest.items})
    return [join(name, tables) for name in names]
