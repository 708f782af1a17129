"""The part of the client that is about namespaces."""

import uuid
from collections.abc import AsyncGenerator, Iterable

from drumline.api.v1.namespace_service_pb2 import (
    CreateNamespacesRequest,
    DeleteNamespacesRequest,
    GetNamespaceRequest,
    ListNamespacesRequest,
    Namespace,
    NamespaceResult,
)
from drumline.client.calls import Calls
from drumline.client.results import Result, error_in


class NamespaceCalls(Calls):
    """Namespaces. What fails and how, and what is tried again: see `Client`."""

    async def create_namespaces(
        self, namespaces: Iterable[Namespace], *, timeout: float | None = None
    ) -> list[Result[Namespace]]:
        """Store namespaces; give each one's result, in order.

        One without ``metadata.request_id`` is given one, in the request only.
        """
        items = [Namespace.FromString(item.SerializeToString()) for item in namespaces]
        for item in items:
            item.metadata.request_id = item.metadata.request_id or uuid.uuid4().hex

        async def send(
            some: list[Namespace], seconds: float
        ) -> tuple[list[Result[Namespace]], str]:
            answer = await self._connection.unary(
                lambda stubs: stubs.namespaces.CreateNamespaces,
                CreateNamespacesRequest(namespaces=some),
                repeatable=True,
                timeout=seconds,
            )
            return _results(answer.results), answer.resource_version

        return await self._bulk(items, send, repeatable=True, timeout=timeout)

    async def create_namespace(self, name: str, *, timeout: float | None = None) -> Namespace:
        """Store a namespace; give it as stored."""
        namespace = Namespace()
        namespace.metadata.name = name
        return (await self.create_namespaces([namespace], timeout=timeout))[0].unwrap()

    async def get_namespace(self, name: str, *, timeout: float | None = None) -> Namespace:
        """Read one namespace with what its pods use. Raises NotFoundError."""
        answer = await self._read(
            lambda stubs: stubs.namespaces.GetNamespace,
            lambda version: GetNamespaceRequest(name=name, min_resource_version=version),
            timeout,
        )
        return answer.namespace

    async def list_namespaces(self, *, page_size: int = 0) -> AsyncGenerator[Namespace, None]:
        """Give all namespaces, by name, a page at a time, all at one version."""
        token = ""
        while True:
            answer = await self._read(
                lambda stubs: stubs.namespaces.ListNamespaces,
                lambda version, token=token: ListNamespacesRequest(  # type: ignore[misc]
                    page_size=page_size,
                    page_token=token,
                    min_resource_version="" if token else version,
                ),
            )
            for namespace in answer.namespaces:
                yield namespace
            token = answer.next_page_token
            if not token:
                return

    async def delete_namespaces(
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> list[Result[Namespace]]:
        """Delete namespaces; give each one's result, in order. Sent once.

        One that holds pods is refused.
        """

        async def send(some: list[str], seconds: float) -> tuple[list[Result[Namespace]], str]:
            answer = await self._connection.unary(
                lambda stubs: stubs.namespaces.DeleteNamespaces,
                DeleteNamespacesRequest(names=some),
                repeatable=False,
                timeout=seconds,
            )
            return _results(answer.results), answer.resource_version

        return await self._bulk(list(names), send, repeatable=False, timeout=timeout)


def _results(answers: Iterable[NamespaceResult]) -> list[Result[Namespace]]:
    return [
        Result(answer.namespace if answer.HasField("namespace") else None, error_in(answer))
        for answer in answers
    ]
