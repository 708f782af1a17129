"""drumline.api.v1.NamespaceService."""

from drumline.api.v1 import namespace_service_pb2
from drumline.apiserver.cache import past
from drumline.apiserver.cache.objects import NamespaceEntry
from drumline.apiserver.domain import namespaces
from drumline.apiserver.rpc import common
from drumline.apiserver.rpc.context import Context
from drumline.apiserver.rpc.lists import page
from drumline.apiserver.store import wire
from drumline.apiserver.store.committer import Step
from drumline.model import validation
from drumline.process import clock
from drumline.process.rpc import Call


class NamespaceService:
    """Namespaces: rooms for pods."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cache = context.cache

    async def CreateNamespaces(
        self, request: namespace_service_pb2.CreateNamespacesRequest, _: Call
    ) -> bytes:
        """Store namespaces."""
        common.check_request(request, request.namespaces, "namespaces")
        now = clock.timestamp()

        def create(namespace: namespace_service_pb2.Namespace, path: str) -> Step[None]:
            common.checked(validation.namespace_to_create(namespace, path))
            return namespaces.create(namespace.metadata, common.new_uid(), now)

        plans = [
            common.plan(create, namespace, f"namespaces[{index}]")
            for index, namespace in enumerate(request.namespaces)
        ]
        outcomes = await common.carry_out(self._context.committer, plans)
        names = [n.metadata.name for n in request.namespaces]
        results = await common.results(self._cache, self._cache.namespaces, names, outcomes)
        return results + common.holds_at(self._cache, outcomes)

    async def GetNamespace(
        self, request: namespace_service_pb2.GetNamespaceRequest, _: Call
    ) -> bytes:
        """Read one namespace."""
        common.check_known_fields(request)
        common.checked(validation.name(request.name, "name", dots=False))
        await common.at_least(self._cache, request.min_resource_version)
        entry = self._cache.namespaces.entries.get(request.name)
        if entry is None:
            raise namespaces.not_found(request.name)
        return wire.message_field(1, self._cache.namespaces.whole(entry))

    async def ListNamespaces(
        self, request: namespace_service_pb2.ListNamespacesRequest, _: Call
    ) -> bytes:
        """Read them all."""
        common.check_known_fields(request)

        async def before(revision: int, after: str, limit: int) -> list[NamespaceEntry]:
            return await past.namespaces_at(self._context.etcd, revision, after, limit)

        return await page(
            self._cache,
            self._cache.namespaces,
            before,
            selector=None,
            select=lambda _: True,
            size=request.page_size,
            token=request.page_token,
            min_resource_version=request.min_resource_version,
        )

    async def DeleteNamespaces(
        self, request: namespace_service_pb2.DeleteNamespacesRequest, _: Call
    ) -> bytes:
        """Delete namespaces that hold no pods."""
        common.check_request(request, request.names, "names")

        def delete(name: str, path: str) -> Step[None]:
            common.checked(validation.name(name, path, dots=False))
            return namespaces.delete(name)

        plans = [
            common.plan(delete, name, f"names[{index}]") for index, name in enumerate(request.names)
        ]
        outcomes = await common.carry_out(self._context.committer, plans)
        results = await common.results(
            self._cache, self._cache.namespaces, request.names, outcomes, is_gone=lambda _: True
        )
        return results + common.holds_at(self._cache, outcomes)
