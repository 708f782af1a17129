"""The part of the client that is about pods."""

import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing

from drumline.api.v1.metadata_pb2 import LabelSelector, PodReference
from drumline.api.v1.pod_pb2 import Phase, Pod
from drumline.api.v1.pod_service_pb2 import (
    CreatePodsRequest,
    DeletePodsRequest,
    GetPodRequest,
    ListPodsRequest,
    PodCondition,
    PodResult,
    PodSelector,
    PodUpdate,
    StreamLogsRequest,
    UpdatePodsRequest,
    WaitResult,
    WatchPodsRequest,
    WatchPodsResponse,
)
from drumline.client import waiting
from drumline.client.calls import Calls, label_selector
from drumline.client.events import Event
from drumline.client.results import Result, error_in
from drumline.model.errors import NotFoundError


class PodCalls(Calls):
    """Pods. What fails and how, and what is tried again: see `Client`."""

    async def create_pods(
        self, pods: Iterable[Pod], *, timeout: float | None = None
    ) -> list[Result[Pod]]:
        """Store pods; give each one's result, in order. Nothing is placed yet when this returns.

        A pod without ``metadata.request_id`` is given one, in the request only.
        """
        items = [Pod.FromString(pod.SerializeToString()) for pod in pods]
        for pod in items:
            pod.metadata.request_id = pod.metadata.request_id or uuid.uuid4().hex

        async def send(some: list[Pod], seconds: float) -> tuple[list[Result[Pod]], str]:
            answer = await self._connection.unary(
                lambda stubs: stubs.pods.CreatePods,
                CreatePodsRequest(pods=some),
                repeatable=True,
                timeout=seconds,
            )
            return _results(answer.results), answer.resource_version

        return await self._bulk(items, send, repeatable=True, timeout=timeout)

    async def create_pod(self, pod: Pod, *, timeout: float | None = None) -> Pod:
        """Store a pod; give it as stored."""
        return (await self.create_pods([pod], timeout=timeout))[0].unwrap()

    async def get_pod(self, name: str, namespace: str = "", *, timeout: float | None = None) -> Pod:
        """Read one pod. Raises NotFoundError."""
        answer = await self._read(
            lambda stubs: stubs.pods.GetPod,
            lambda version: GetPodRequest(
                namespace=namespace, name=name, min_resource_version=version
            ),
            timeout,
        )
        return answer.pod

    async def list_pods(
        self,
        namespace: str = "",
        *,
        labels: str | LabelSelector = "",
        phases: Sequence[Phase.ValueType] = (),
        node: str = "",
        page_size: int = 0,
    ) -> AsyncGenerator[Pod, None]:
        """Give the pods that match, by namespace and name, a page at a time, all at one version.

        Without a namespace those of all. `labels` may be text such as
        ``app=web,tier!=db``. The deadline of a call counts for each page. Raises
        OutOfRangeError when reading on took so long that the version is gone.
        """
        selector = _selector(namespace, labels, phases, node)
        token = ""
        while True:
            answer = await self._read(
                lambda stubs: stubs.pods.ListPods,
                lambda version, token=token: ListPodsRequest(  # type: ignore[misc]
                    selector=selector,
                    page_size=page_size,
                    page_token=token,
                    min_resource_version="" if token else version,
                ),
            )
            for pod in answer.pods:
                yield pod
            token = answer.next_page_token
            if not token:
                return

    def watch_pods(
        self,
        namespace: str = "",
        *,
        labels: str | LabelSelector = "",
        phases: Sequence[Phase.ValueType] = (),
        node: str = "",
        patience: float | None = None,
    ) -> AsyncGenerator[Event[Pod], None]:
        """Follow the pods that match: all there are, `Synced`, then what changes.

        Never ends by itself. A broken stream is resumed where it broke; where that
        cannot be, the pods are listed again: nothing is told twice, and what vanished
        meanwhile is told as `Removed`, once. `patience` is for how many seconds
        the cluster may be away before that is raised; None waits for ever. The
        first connection has the deadline of a call. The last state of every pod
        that matches is held in memory.
        """
        selector = _selector(namespace, labels, phases, node)
        return self._connection.follow(
            lambda stubs: stubs.pods.WatchPods,
            lambda version: WatchPodsRequest(selector=selector, resource_version=version),
            _changes,
            patience,
        )

    async def update_pods(
        self, updates: Iterable[PodUpdate], *, timeout: float | None = None
    ) -> list[Result[Pod]]:
        """Change pods; give each one's result, in order. Sent once."""

        async def send(some: list[PodUpdate], seconds: float) -> tuple[list[Result[Pod]], str]:
            answer = await self._connection.unary(
                lambda stubs: stubs.pods.UpdatePods,
                UpdatePodsRequest(updates=some),
                repeatable=False,
                timeout=seconds,
            )
            return _results(answer.results), answer.resource_version

        return await self._bulk(list(updates), send, repeatable=False, timeout=timeout)

    async def update_pod(
        self, pod: Pod, fields: Sequence[str], *, timeout: float | None = None
    ) -> Pod:
        """Change one pod: take `fields` (such as "metadata.labels") from `pod`, each whole."""
        update = PodUpdate(pod=pod)
        update.update_mask.paths.extend(fields)
        return (await self.update_pods([update], timeout=timeout))[0].unwrap()

    async def delete_pods(
        self,
        pods: Iterable[PodReference],
        *,
        grace_period_seconds: int | None = None,
        timeout: float | None = None,
    ) -> list[Result[Pod]]:
        """Delete pods; give each one's result, in order: the pod while it is being stopped.

        Sent again after a failure only when every reference carries a uid. A uid
        that is not found is gone, as asked: that is no error.
        """
        items = list(pods)
        repeatable = all(item.uid for item in items)

        async def send(some: list[PodReference], seconds: float) -> tuple[list[Result[Pod]], str]:
            answer = await self._connection.unary(
                lambda stubs: stubs.pods.DeletePods,
                DeletePodsRequest(pods=some, grace_period_seconds=grace_period_seconds),
                repeatable=repeatable,
                timeout=seconds,
            )
            results = _results(answer.results)
            return [
                Result[Pod]() if item.uid and isinstance(result.error, NotFoundError) else result
                for item, result in zip(some, results, strict=True)
            ], answer.resource_version

        return await self._bulk(items, send, repeatable=repeatable, timeout=timeout)

    async def delete_pod(
        self,
        name: str,
        namespace: str = "",
        *,
        grace_period_seconds: int | None = None,
        timeout: float | None = None,
    ) -> Pod | None:
        """Delete a pod; give it while it is being stopped, None when it is gone. Sent once."""
        results = await self.delete_pods(
            [PodReference(namespace=namespace, name=name)],
            grace_period_seconds=grace_period_seconds,
            timeout=timeout,
        )
        return results[0].check()

    async def wait_for_pods(
        self,
        pods: Iterable[PodReference],
        condition: PodCondition.ValueType,
        *,
        timeout: float = 30.0,
        on_result: Callable[[WaitResult], None] | None = None,
    ) -> list[WaitResult]:
        """Wait until pods have come so far; give each one's result, in order.

        `timeout` is for all together, in seconds, without bound. At its end there
        is an answer for each pod, also when the cluster could not be asked any
        more. `on_result` is told each result as soon as it is known. The first
        connection has the deadline of a call.
        """
        return await waiting.wait(self._connection, list(pods), condition, timeout, on_result)

    async def stream_logs(
        self,
        name: str,
        namespace: str = "",
        *,
        container: str = "",
        follow: bool = False,
        tail_lines: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Give what a container has written, in pieces that may end within a line.

        With `follow` it goes on until the container ends. A stream that breaks off
        is not resumed: UnavailableError says so.
        """
        request = StreamLogsRequest(
            namespace=namespace,
            name=name,
            container=container,
            follow=follow,
            tail_lines=tail_lines,
        )
        method = self._connection.stream(lambda stubs: stubs.pods.StreamLogs, request)
        async with aclosing(method) as pieces:
            async for piece in pieces:
                yield piece.data


def reference(pod: Pod) -> PodReference:
    """Give the reference that means exactly this pod, and no later one of its name."""
    meta = pod.metadata
    return PodReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)


def _selector(
    namespace: str,
    labels: str | LabelSelector,
    phases: Sequence[Phase.ValueType],
    node: str,
) -> PodSelector:
    return PodSelector(namespace=namespace, labels=label_selector(labels), phases=phases, node=node)


def _results(answers: Iterable[PodResult]) -> list[Result[Pod]]:
    return [
        Result(answer.pod if answer.HasField("pod") else None, error_in(answer))
        for answer in answers
    ]


def _changes(message: WatchPodsResponse) -> tuple[list[tuple[int, Pod]], str, int]:
    changes: list[tuple[int, Pod]] = [(event.type, event.pod) for event in message.events]
    return changes, message.resource_version, message.mark
