"""The control plane's processes that this apiserver knows: those that hold a stream to it."""

from collections.abc import Iterator
from contextlib import contextmanager

from drumline.api.v1 import cluster_service_pb2
from drumline.process import clock
from drumline.process.rpc import Call


class Components:
    """Who is connected."""

    def __init__(self, itself: cluster_service_pb2.Component) -> None:
        self._present = {0: itself}
        self._count = 0

    @contextmanager
    def connected(self, kind: str, instance: str, version: str, call: Call) -> Iterator[None]:
        """Count a process among those that are there, while the block runs."""
        self._count += 1
        number = self._count
        self._present[number] = cluster_service_pb2.Component(
            kind=kind,
            instance=instance,
            identity=call.peer.identity,
            version=version,
            address=call.address,
            since=clock.timestamp(),
        )
        try:
            yield
        finally:
            del self._present[number]

    def all(self) -> list[cluster_service_pb2.Component]:
        """Give them, by kind, then instance."""
        return sorted(self._present.values(), key=lambda c: (c.kind, c.instance))
