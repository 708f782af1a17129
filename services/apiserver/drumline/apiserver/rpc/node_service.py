"""drumline.api.v1.NodeService."""

from collections.abc import AsyncIterator, Callable

from drumline.api.v1 import metadata_pb2, node_service_pb2
from drumline.apiserver.cache import past
from drumline.apiserver.cache.objects import NodeEntry
from drumline.apiserver.cache.versions import revision_of
from drumline.apiserver.domain import nodes
from drumline.apiserver.domain.pods import Expected, check_paths
from drumline.apiserver.rpc import common, watches
from drumline.apiserver.rpc.context import Context
from drumline.apiserver.rpc.lists import page
from drumline.apiserver.store import wire
from drumline.apiserver.store.committer import Step
from drumline.apiserver.store.kinds import NODE_LOADS
from drumline.model import labels, validation
from drumline.process.rpc import Call

LOAD_ONLY = frozenset({NODE_LOADS.prefix})


class NodeService:
    """Nodes, for users and admins."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cache = context.cache

    async def GetNode(self, request: node_service_pb2.GetNodeRequest, _: Call) -> bytes:
        """Read one node."""
        common.check_known_fields(request)
        common.checked(validation.name(request.name, "name"))
        await common.at_least(self._cache, request.min_resource_version)
        entry = self._cache.nodes.entries.get(request.name)
        if entry is None:
            raise nodes.not_found(request.name)
        return wire.message_field(1, self._cache.nodes.whole(entry))

    async def ListNodes(self, request: node_service_pb2.ListNodesRequest, _: Call) -> bytes:
        """Read the nodes that match."""
        common.check_known_fields(request)

        async def before(revision: int, after: str, limit: int) -> list[NodeEntry]:
            return await past.nodes_at(self._context.etcd, revision, after, limit)

        return await page(
            self._cache,
            self._cache.nodes,
            before,
            selector=request.labels,
            select=_selector(request.labels),
            size=request.page_size,
            token=request.page_token,
            min_resource_version=request.min_resource_version,
        )

    async def WatchNodes(
        self, request: node_service_pb2.WatchNodesRequest, _: Call
    ) -> AsyncIterator[bytes]:
        """Follow the nodes that match."""
        common.check_known_fields(request)
        select = _selector(request.labels)
        after = await watches.resume_point(self._cache, request.resource_version)
        watch = watches.Watch(
            self._cache,
            self._cache.nodes,
            select,
            ignore=frozenset() if request.include_load else LOAD_ONLY,
            bookmark_seconds=self._context.bookmark_seconds,
        )
        async for message in watch.messages(after):
            yield message

    async def UpdateNodes(self, request: node_service_pb2.UpdateNodesRequest, _: Call) -> bytes:
        """Change nodes."""
        common.check_request(request, request.updates, "updates")
        plans = [
            common.plan(self._amend, update, f"updates[{index}]")
            for index, update in enumerate(request.updates)
        ]
        outcomes = await common.carry_out(self._context.committer, plans)
        names = [u.node.metadata.name for u in request.updates]
        results = await common.results(self._cache, self._cache.nodes, names, outcomes)
        return results + common.holds_at(self._cache, outcomes)

    def _amend(self, update: node_service_pb2.NodeUpdate, path: str) -> Step[None]:
        metadata = update.node.metadata
        common.checked(validation.name(metadata.name, f"{path}.node.metadata.name"))
        paths = frozenset(update.update_mask.paths)
        check_paths(paths, nodes.MUTABLE, f"{path}.update_mask")
        field = f"{path}.node.metadata.resource_version"
        revision = revision_of(metadata.resource_version, self._cache.epoch, field)
        expected = Expected(metadata.uid, revision)
        return nodes.amend(update.node, paths, expected, f"{path}.node")

    async def DeleteNodes(self, request: node_service_pb2.DeleteNodesRequest, _: Call) -> bytes:
        """Forget nodes."""
        common.check_request(request, request.names, "names")

        def forget(name: str, path: str) -> Step[None]:
            common.checked(validation.name(name, path))
            return nodes.forget(name)

        plans = [
            common.plan(forget, name, f"names[{index}]") for index, name in enumerate(request.names)
        ]
        outcomes = await common.carry_out(self._context.committer, plans)
        results = await common.results(
            self._cache, self._cache.nodes, request.names, outcomes, is_gone=lambda _: True
        )
        return results + common.holds_at(self._cache, outcomes)


def _selector(selector: metadata_pb2.LabelSelector) -> Callable[[NodeEntry], bool]:
    common.checked(validation.label_selector(selector, "labels"))
    if not selector.requirements:
        return lambda _: True
    return lambda entry: labels.matches(selector, entry.labels)
