"""Sends what pods are to the apiserver: on change, in batches, until it is acknowledged.

One batch is under way at a time and a little time lies between two, so that pods
that change together are reported together; the first change after a quiet time
goes out at once.
"""

import asyncio

import grpc
from drumline.api.v1.metadata_pb2 import PodReference
from drumline.api.v1.pod_pb2 import PodStatus
from drumline.kubelet import statuses
from drumline.kubelet.pod_table import Record
from drumline.kubelet.report_queue import ReportQueue
from drumline.model.errors import (
    DrumlineError,
    InvalidArgumentError,
    UnavailableError,
    from_rpc_error,
    from_status,
)
from drumline.node.v1.node_agent_service_pb2 import PodStatusReport, ReportPodStatusesRequest
from drumline.node.v1.node_agent_service_pb2_grpc import NodeAgentServiceStub
from drumline.process import clock, logs
from drumline.process.backoff import Backoff
from drumline.process.channels import Endpoints

_log = logs.get(__name__)

BATCH = 1000
# Refused for good: the cluster knows better.
_FINAL = frozenset({"POD_NOT_FOUND", "NOT_ASSIGNED", "STALE_REPORT"})


class Reporter:
    """Sends reports over the channel of `endpoints`.

    `hold` is how long the start of a pod is held back, `spacing` the least time
    between two batches, `timeout` how long one is waited for; all in seconds.
    """

    def __init__(
        self, endpoints: Endpoints, *, hold: float = 0.5, spacing: float = 0.05, timeout: float = 10
    ) -> None:
        self._endpoints = endpoints
        self._spacing = spacing
        self._timeout = timeout
        self._queue = ReportQueue(hold)
        self._records: dict[str, Record] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._backoff = Backoff(initial=0.1, maximum=5.0)

    def add(self, record: Record, *, early: bool) -> None:
        """Report the pod; `early` says that it has only begun to start."""
        self._records[record.uid] = record
        if early:
            self._queue.hold(record.uid, clock.monotonic())
        else:
            self._queue.put(record.uid)
        self._idle.clear()
        self._wake.set()

    def drop(self, record: Record) -> None:
        """Report it no more."""
        self._records.pop(record.uid, None)
        self._queue.drop(record.uid)

    def status(self, record: Record) -> PodStatus:
        """Give what would be reported now."""
        assert record.pod is not None
        return statuses.build(record.life, record.pod, record.sequence)

    async def flushed(self) -> None:
        """Wait until everything is reported."""
        await self._idle.wait()

    async def run(self) -> None:
        """Send, until cancelled."""
        while True:
            await self._due()
            batch = [
                self._records[uid]
                for uid in self._queue.take(clock.monotonic(), BATCH)
                if uid in self._records
            ]
            if not batch:
                continue
            try:
                again = await self._send(batch)
            except DrumlineError as error:
                _log.warning("report_failed", reason=error.reason, error=error.message)
                again = batch
            for record in again:
                if record.uid in self._records:
                    self._queue.put(record.uid)
            if again:
                await asyncio.sleep(self._backoff.next_delay())
            else:
                self._backoff.reset()
                await asyncio.sleep(self._spacing)

    async def _due(self) -> None:
        while True:
            self._wake.clear()
            wait = self._queue.wait(clock.monotonic())
            if wait == 0.0:
                return
            if wait is None:
                self._idle.set()
            try:
                await asyncio.wait_for(self._wake.wait(), wait)
            except TimeoutError:
                return

    async def _send(self, batch: list[Record]) -> list[Record]:
        """Send one batch; give those that must be sent again. Raises DrumlineError."""
        request = ReportPodStatusesRequest()
        for record in batch:
            assert record.pod is not None
            record.sequence += 1
            request.reports.append(_report(record))
        stub = NodeAgentServiceStub(self._endpoints.channel())
        try:
            response = await stub.ReportPodStatuses(request, timeout=self._timeout)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The channel was closed under the call, because the watch left for another.
            raise UnavailableError("the connection to the apiserver was given up") from None
        again = []
        for record, status in zip(batch, response.results, strict=True):
            if status.code == 0:
                continue
            refusal = from_status(status)
            _log.warning(
                "report_refused", pod_uid=record.uid, reason=refusal.reason, error=refusal.message
            )
            if refusal.reason not in _FINAL and not isinstance(refusal, InvalidArgumentError):
                again.append(record)
        return again


def _report(record: Record) -> PodStatusReport:
    assert record.pod is not None
    metadata = record.pod.metadata
    return PodStatusReport(
        pod=PodReference(namespace=metadata.namespace, name=metadata.name, uid=record.uid),
        node=record.node,
        status=statuses.build(record.life, record.pod, record.sequence),
    )
