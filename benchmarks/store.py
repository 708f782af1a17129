"""What etcd itself takes: the ceiling of everything that is stored."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

from aetcd.rpc import rpc_pb2 as pb
from aetcd.rpc import rpc_pb2_grpc as pb_grpc
from drumline.process.channels import channel

from benchmarks.answers import until_answered, until_listening
from benchmarks.cluster import Cluster, running
from benchmarks.measured import measured

_CALL_SECONDS = 60.0
_START_SECONDS = 30.0

Txn = Callable[[str, range], Any]


async def measure(pods: int, batch: int, value_bytes: int) -> dict[str, Any]:
    """Start etcd alone, write what pods need as an apiserver does, and give the figures.

    Each figure is for one transaction under way at a time, as an apiserver sends them,
    and for four, which is more than it would gain by.
    """
    async with running(store_only=True) as cluster:
        await until_listening(cluster.plan.ports["etcd"])
        async with channel(cluster.plan.address("etcd"), cluster.etcd_user) as opened:
            store = pb_grpc.KVStub(opened)
            nothing = pb.RangeRequest(key=b"nothing")
            async with asyncio.timeout(_START_SECONDS):
                await until_answered(lambda: store.Range(nothing, timeout=5.0))
            figures: dict[str, Any] = {}
            for in_flight in (1, 4):
                prefix = f"{in_flight}"
                figures[f"in_flight_{in_flight}"] = await _ways(
                    cluster, store, prefix, pods, batch, value_bytes, in_flight
                )
    return figures


async def _ways(
    cluster: Cluster,
    store: Any,
    prefix: str,
    pods: int,
    batch: int,
    value_bytes: int,
    in_flight: int,
) -> dict[str, Any]:
    value = bytes(value_bytes)
    ways: dict[str, tuple[Txn, int]] = {
        "create": (lambda key, numbers: _create(key, numbers, value), 1),
        "assign": (lambda key, numbers: _assign(key, numbers, value), 2),
        "report": (lambda key, numbers: _report(key, numbers, value), 1),
    }
    figures: dict[str, Any] = {}
    total = 0.0
    for name, (make, keys) in ways.items():
        ranges = [range(first, min(first + batch, pods)) for first in range(0, pods, batch)]
        requests = iter([make(prefix, numbers) for numbers in ranges])
        async with measured(cluster) as window:
            began = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for _ in range(in_flight):
                    group.create_task(_send(store, requests))
            seconds = time.perf_counter() - began
        total += seconds
        figures[f"{name}_keys_per_s"] = round(keys * pods / seconds, 1)
        figures[f"{name}_cpu_us_a_key"] = round(1e3 * window.cpu_ms_a(keys * pods, "etcd"), 1)
    # One after the other on the same etcd: what a pod needs from create to running.
    figures["pods_per_s"] = round(pods / total, 1)
    return figures


async def _send(store: Any, requests: Iterator[Any]) -> None:
    for request in requests:
        answer = await store.Txn(request, timeout=_CALL_SECONDS)
        if not all(part.response_txn.succeeded for part in answer.responses):
            raise RuntimeError("a part of a transaction did not succeed")


def _create(prefix: str, numbers: range, value: bytes) -> Any:
    """Pods of one namespace: one part, because its use is one record."""
    request = pb.TxnRequest()
    part = request.success.add().request_txn
    for number in numbers:
        _absent(part, f"pods/{prefix}/{number}")
        _put(part, f"pods/{prefix}/{number}", value)
    _put(part, f"quotause/{prefix}", value)
    return request


def _assign(prefix: str, numbers: range, value: bytes) -> Any:
    """Pods on nodes of their own: a part each, with the node's load."""
    request = pb.TxnRequest()
    for number in numbers:
        part = request.success.add().request_txn
        _present(part, f"pods/{prefix}/{number}")
        _absent(part, f"assignments/{prefix}/{number}")
        _absent(part, f"podstatus/{prefix}/{number}")
        _put(part, f"assignments/{prefix}/{number}", value)
        _put(part, f"nodeload/{prefix}/{number}", value)
    return request


def _report(prefix: str, numbers: range, value: bytes) -> Any:
    """What pods are: a part each."""
    request = pb.TxnRequest()
    for number in numbers:
        part = request.success.add().request_txn
        _present(part, f"pods/{prefix}/{number}")
        _present(part, f"assignments/{prefix}/{number}")
        _absent(part, f"podstatus/{prefix}/{number}")
        _put(part, f"podstatus/{prefix}/{number}", value)
    return request


def _absent(part: Any, key: str) -> None:
    part.compare.add(
        key=key.encode(), target=pb.Compare.MOD, result=pb.Compare.EQUAL, mod_revision=0
    )


def _present(part: Any, key: str) -> None:
    part.compare.add(
        key=key.encode(), target=pb.Compare.MOD, result=pb.Compare.GREATER, mod_revision=0
    )


def _put(part: Any, key: str, value: bytes) -> None:
    put = part.success.add().request_put
    put.key, put.value = key.encode(), value
