"""Makes the pods that are assigned to this kubelet's nodes run, and says what they are.

The shell around `PodTable`: it carries out actions on the runtime and feeds
what the apiserver and the runtime say into the table, all in the event loop's
thread and without waiting, so that one pod never holds up another.
"""

import asyncio
from collections.abc import Sequence

from drumline.api.v1.metadata_pb2 import EVENT_TYPE_REMOVED, WATCH_MARK_SYNCED
from drumline.api.v1.pod_pb2 import Pod
from drumline.kubelet import lifecycle
from drumline.kubelet.lifecycle import Forget, Report, Stage, Start, Stop
from drumline.kubelet.pod_table import Actions, PodTable, Record
from drumline.kubelet.reporter import Reporter
from drumline.kubelet.runtime import PodState, Runtime
from drumline.node.v1.node_agent_service_pb2 import WatchAssignedPodsResponse
from drumline.process import clock, logs

_log = logs.get(__name__)

_EXPIRE_SECONDS = 10.0


class Agent:
    """Keeps runtime and table in step.

    `keep_count` pods that have ended are kept for `keep_age` seconds.
    """

    def __init__(
        self,
        table: PodTable,
        runtime: Runtime,
        reporter: Reporter,
        nodes: Sequence[str],
        *,
        keep_count: int,
        keep_age: float,
    ) -> None:
        self.table = table
        self._runtime = runtime
        self._reporter = reporter
        self._nodes = nodes
        self._keep_count = keep_count
        self._keep_age = keep_age
        # The uids in the first part of a watch, until that is whole.
        self._listed: set[str] | None = None
        # Set whenever the runtime has said something.
        self._seen = asyncio.Event()
        self._leaving = False
        runtime.listen(self._observed)

    async def recover(self) -> None:
        """Find the pods from before this start. Raises OSError."""
        for found in await self._runtime.recover():
            self._apply(self.table.recover(found, self._nodes[0]))
        if self.table.records:
            _log.info("pods_recovered", pods=len(self.table.records))

    async def run(self) -> None:
        """Drop what was kept long enough, until cancelled."""
        while True:
            await asyncio.sleep(_EXPIRE_SECONDS)
            now = clock.monotonic()
            for uid in self.table.expire(self._keep_count, self._keep_age, now):
                self._runtime.remove(uid)

    def begin_watch(self) -> None:
        """A watch begins: what it does not name must not run."""
        self._listed = set()

    def take(self, response: WatchAssignedPodsResponse) -> bool:
        """Take in a part of the watch; say whether it completes the first list."""
        for event in response.events:
            pod = event.pod
            if event.type == EVENT_TYPE_REMOVED:
                if self._listed is not None:
                    self._listed.discard(pod.metadata.uid)
                self._apply(self.table.removed(pod, clock.monotonic()))
            elif not self._leaving or pod.metadata.uid in self.table.records:
                if self._listed is not None:
                    self._listed.add(pod.metadata.uid)
                self._apply(self.table.assigned(pod, clock.monotonic()))
        if response.mark != WATCH_MARK_SYNCED or self._listed is None:
            return False
        listed, self._listed = self._listed, None
        self._apply(self.table.synced(listed, clock.monotonic()))
        return True

    async def stop_all(self, grace: float) -> None:
        """End every pod within `grace` seconds, take no other, and wait until that is reported."""
        self._leaving = True
        self._apply(self.table.stop_all(lifecycle.NODE_STOPPED, grace, clock.monotonic()))
        while any(r.life.stage is not Stage.ENDED for r in self.table.records.values()):
            self._seen.clear()
            await self._seen.wait()
        await self._reporter.flushed()

    def pods(self) -> list[Pod]:
        """Give the pods with their statuses as they are known here, by namespace and name."""
        found = []
        for record in self.table.records.values():
            if record.pod is not None:
                pod = Pod()
                pod.CopyFrom(record.pod)
                pod.status.CopyFrom(self._reporter.status(record))
                found.append(pod)
        return sorted(found, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))

    def _observed(self, state: PodState) -> None:
        if state.ended and (state.loss or state.start_problem):
            _log.warning(
                "pod_not_run",
                pod_uid=state.uid,
                loss=state.loss or None,
                start_problem=state.start_problem or None,
            )
        self._seen.set()
        self._apply(self.table.observed(state))

    def _apply(self, actions: Actions) -> None:
        for record, action in actions:
            match action:
                case Report():
                    self._report(record)
                case Start():
                    assert record.pod is not None
                    self._runtime.start(record.pod)
                case Stop(grace):
                    self._runtime.stop(record.uid, grace)
                case Forget():
                    self._reporter.drop(record)
                    self.table.forget(record, clock.monotonic())
                    if record.deleted:
                        self._runtime.remove(record.uid)

    def _report(self, record: Record) -> None:
        if record.seen:
            early = record.life.stage in {Stage.WAITING, Stage.STARTING}
            self._reporter.add(record, early=early)
