"""The part of the client that is about nodes."""

from collections.abc import AsyncGenerator, Iterable, Sequence

from drumline.api.v1.metadata_pb2 import LabelSelector, ObjectMeta
from drumline.api.v1.node_pb2 import Node, NodeSpec
from drumline.api.v1.node_service_pb2 import (
    DeleteNodesRequest,
    GetNodeRequest,
    ListNodesRequest,
    NodeResult,
    NodeUpdate,
    UpdateNodesRequest,
    WatchNodesRequest,
    WatchNodesResponse,
)
from drumline.client.calls import Calls, label_selector
from drumline.client.events import Event
from drumline.client.results import Result, error_in


class NodeCalls(Calls):
    """Nodes. What fails and how, and what is tried again: see `Client`."""

    async def get_node(self, name: str, *, timeout: float | None = None) -> Node:
        """Read one node. Raises NotFoundError."""
        answer = await self._read(
            lambda stubs: stubs.nodes.GetNode,
            lambda version: GetNodeRequest(name=name, min_resource_version=version),
            timeout,
        )
        return answer.node

    async def list_nodes(
        self, *, labels: str | LabelSelector = "", page_size: int = 0
    ) -> AsyncGenerator[Node, None]:
        """Give the nodes that match, by name, a page at a time, all at one version.

        `labels` is compared with the labels in effect: the node's own, overlaid
        with the admins'.
        """
        selector = label_selector(labels)
        token = ""
        while True:
            answer = await self._read(
                lambda stubs: stubs.nodes.ListNodes,
                lambda version, token=token: ListNodesRequest(  # type: ignore[misc]
                    labels=selector,
                    page_size=page_size,
                    page_token=token,
                    min_resource_version="" if token else version,
                ),
            )
            for node in answer.nodes:
                yield node
            token = answer.next_page_token
            if not token:
                return

    def watch_nodes(
        self,
        *,
        labels: str | LabelSelector = "",
        include_load: bool = False,
        patience: float | None = None,
    ) -> AsyncGenerator[Event[Node], None]:
        """Follow the nodes that match, as `watch_pods` follows pods.

        Changes of ``load`` alone are told only with `include_load`.
        """
        selector = label_selector(labels)
        return self._connection.follow(
            lambda stubs: stubs.nodes.WatchNodes,
            lambda version: WatchNodesRequest(
                labels=selector, resource_version=version, include_load=include_load
            ),
            _changes,
            patience,
        )

    async def update_nodes(
        self, updates: Iterable[NodeUpdate], *, timeout: float | None = None
    ) -> list[Result[Node]]:
        """Change nodes; give each one's result, in order. Sent once."""

        async def send(some: list[NodeUpdate], seconds: float) -> tuple[list[Result[Node]], str]:
            answer = await self._connection.unary(
                lambda stubs: stubs.nodes.UpdateNodes,
                UpdateNodesRequest(updates=some),
                repeatable=False,
                timeout=seconds,
            )
            return _results(answer.results), answer.resource_version

        return await self._bulk(list(updates), send, repeatable=False, timeout=timeout)

    async def update_node(
        self, node: Node, fields: Sequence[str], *, timeout: float | None = None
    ) -> Node:
        """Change one node: take `fields` (such as "metadata.labels") from `node`, each whole."""
        update = NodeUpdate(node=node)
        update.update_mask.paths.extend(fields)
        return (await self.update_nodes([update], timeout=timeout))[0].unwrap()

    async def cordon(self, name: str, *, timeout: float | None = None) -> Node:
        """Keep new pods off a node; those that are there stay."""
        return await self._set_unschedulable(name, unschedulable=True, timeout=timeout)

    async def uncordon(self, name: str, *, timeout: float | None = None) -> Node:
        """Let pods onto a node again."""
        return await self._set_unschedulable(name, unschedulable=False, timeout=timeout)

    async def _set_unschedulable(
        self, name: str, *, unschedulable: bool, timeout: float | None
    ) -> Node:
        node = Node(metadata=ObjectMeta(name=name), spec=NodeSpec(unschedulable=unschedulable))
        return await self.update_node(node, ["spec.unschedulable"], timeout=timeout)

    async def delete_nodes(
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> list[Result[Node]]:
        """Forget nodes; give each one's result, in order. Sent once.

        One with active assignments is refused; one whose kubelet still runs
        registers again.
        """

        async def send(some: list[str], seconds: float) -> tuple[list[Result[Node]], str]:
            answer = await self._connection.unary(
                lambda stubs: stubs.nodes.DeleteNodes,
                DeleteNodesRequest(names=some),
                repeatable=False,
                timeout=seconds,
            )
            return _results(answer.results), answer.resource_version

        return await self._bulk(list(names), send, repeatable=False, timeout=timeout)


def _results(answers: Iterable[NodeResult]) -> list[Result[Node]]:
    return [
        Result(answer.node if answer.HasField("node") else None, error_in(answer))
        for answer in answers
    ]


def _changes(message: WatchNodesResponse) -> tuple[list[tuple[int, Node]], str, int]:
    changes: list[tuple[int, Node]] = [(event.type, event.node) for event in message.events]
    return changes, message.resource_version, message.mark
