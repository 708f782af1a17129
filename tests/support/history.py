"""The store as it was at every one of its revisions, and recounts of what it sums up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from drumline.api.v1 import pod_pb2
from drumline.apiserver.store.etcd import Etcd
from drumline.model import resources
from drumline.process.tls import TlsFiles
from drumline.storage.v1 import records_pb2

from tests.support.store import EtcdServer

State = dict[str, bytes]


@asynccontextmanager
async def store(etcd: EtcdServer, certs: Path) -> AsyncIterator[Etcd]:
    """Speak to etcd itself."""
    client = Etcd((etcd.address,), TlsFiles.in_folder(certs, "apiserver"), 5.0)
    try:
        yield client
    finally:
        await client.close()


async def revision(etcd: EtcdServer, certs: Path) -> int:
    """Give the store's revision: every write, of whomever, makes it grow."""
    async with store(etcd, certs) as client:
        return await client.current_revision()


async def states(etcd: EtcdServer, certs: Path) -> AsyncIterator[tuple[int, State]]:
    """Give what the store held at each revision, from the first to the newest."""
    async with store(etcd, certs) as client:
        last = await client.current_revision()
        state: State = {}
        async for number, items in client.watch(1):
            for item in items:
                if item.value is None:
                    state.pop(item.key.decode(), None)
                else:
                    state[item.key.decode()] = item.value
            if number:
                yield number, state
            if number >= last:
                return


async def check_sums(etcd: EtcdServer, certs: Path) -> int:
    """Recount loads and usages at every revision; give the number of revisions."""
    count = 0
    recount = Recount()
    async for number, state in states(etcd, certs):
        found = recount.faults(state)
        assert not found, f"at revision {number}: {found}"
        count += 1
    assert count
    return count


class Recount:
    """Counts anew what the store's sums say, and finds where they differ."""

    def __init__(self) -> None:
        self._requests: dict[bytes, resources.Amounts] = {}
        self._assignments: dict[bytes, pod_pb2.Assignment] = {}

    def faults(self, state: State) -> list[str]:
        """Give a sentence for each sum that is wrong, or that is over what there is."""
        return [*self._load_faults(state), *self._usage_faults(state), *_orphans(state)]

    def _load_faults(self, state: State) -> list[str]:
        promised: dict[str, resources.Amounts] = {}
        for key, value in state.items():
            if key.startswith("assignments/"):
                assignment = self._assignment(value)
                if not assignment.released:
                    charged = resources.from_proto(assignment.charged)
                    before = promised.get(assignment.node, resources.ZERO)
                    promised[assignment.node] = resources.add(before, charged)
        found = []
        for key, value in state.items():
            if not key.startswith("nodeload/"):
                continue
            load = records_pb2.NodeLoadRecord.FromString(value).load
            said, have = resources.from_proto(load.promised), resources.from_proto(load.allocatable)
            counted = promised.pop(key.removeprefix("nodeload/"), resources.ZERO)
            if said != counted:
                found.append(f"{key} says {said}, counted {counted}")
            if resources.shortfalls(said, have):
                found.append(f"{key} promises {said} of {have}")
        return found + [f"{node} has assignments and no load" for node in promised]

    def _usage_faults(self, state: State) -> list[str]:
        counted: dict[str, tuple[int, resources.Amounts]] = {}
        for key, value in state.items():
            if key.startswith("pods/"):
                _, namespace, name = key.split("/")
                pods, requested = counted.get(namespace, (0, resources.ZERO))
                if not _has_ended(state.get(f"podstatus/{namespace}/{name}")):
                    requested = resources.add(requested, self._request(value))
                counted[namespace] = pods + 1, requested
        found = []
        for key, value in state.items():
            if not key.startswith("quotause/"):
                continue
            usage = records_pb2.QuotaUseRecord.FromString(value).usage
            said = usage.stored_pods, resources.from_proto(usage.requested)
            expected = counted.pop(key.removeprefix("quotause/"), (0, resources.ZERO))
            if said != expected:
                found.append(f"{key} says {said}, counted {expected}")
        return found + [f"namespace {namespace} has pods and no usage" for namespace in counted]

    def _request(self, value: bytes) -> resources.Amounts:
        if value not in self._requests:
            spec = records_pb2.PodRecord.FromString(value).spec
            self._requests[value] = resources.pod_request(spec)
        return self._requests[value]

    def _assignment(self, value: bytes) -> pod_pb2.Assignment:
        if value not in self._assignments:
            record = records_pb2.AssignmentRecord.FromString(value)
            self._assignments[value] = record.assignment
        return self._assignments[value]


def _has_ended(status: bytes | None) -> bool:
    if status is None:
        return False
    record = records_pb2.PodStatusRecord.FromString(status)
    return record.status.phase == pod_pb2.PHASE_TERMINATED


def _orphans(state: State) -> list[str]:
    """Find records of pods that are gone: a pod's records are removed together."""
    return [
        f"{key} has no pod"
        for key in state
        if key.startswith(("assignments/", "podstatus/"))
        and f"pods/{key.partition('/')[2]}" not in state
    ]
