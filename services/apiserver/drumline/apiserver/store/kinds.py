"""The kinds of record that etcd holds, and their keys.

A record's key is ``KIND/NAME``; the name of a record of a pod is
``NAMESPACE/NAME``. Everywhere above the etcd client a record is addressed by its
kind and its name.
"""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from drumline.storage.v1 import records_pb2 as pb
from google.protobuf.message import Message

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, eq=False)
class Kind(Generic[M]):
    """A kind of record: the first part of its keys, and its schema."""

    prefix: str
    schema: type[M]

    def key(self, name: str) -> bytes:
        """Give the etcd key of the record with this name."""
        return f"{self.prefix}/{name}".encode()


PODS = Kind("pods", pb.PodRecord)
ASSIGNMENTS = Kind("assignments", pb.AssignmentRecord)
POD_STATUSES = Kind("podstatus", pb.PodStatusRecord)
NODES = Kind("nodes", pb.NodeRecord)
NODE_INFOS = Kind("nodeinfo", pb.NodeInfoRecord)
NODE_STATUSES = Kind("nodestatus", pb.NodeStatusRecord)
NODE_LOADS = Kind("nodeload", pb.NodeLoadRecord)
NAMESPACES = Kind("namespaces", pb.NamespaceRecord)
QUOTA_USES = Kind("quotause", pb.QuotaUseRecord)
EPOCHS = Kind("epoch", pb.EpochRecord)
LEADERS = Kind("leaders", pb.LeaderRecord)

KINDS: dict[str, Kind[Message]] = {
    kind.prefix: kind  # type: ignore[misc]
    for kind in (
        PODS,
        ASSIGNMENTS,
        POD_STATUSES,
        NODES,
        NODE_INFOS,
        NODE_STATUSES,
        NODE_LOADS,
        NAMESPACES,
        QUOTA_USES,
        EPOCHS,
        LEADERS,
    )
}

EPOCH_NAME = "current"


def parse_key(key: bytes) -> tuple[str, str]:
    """Give the kind's prefix and the name that a key holds; the prefix may be unknown."""
    prefix, _, name = key.decode("utf-8", "replace").partition("/")
    return prefix, name


class Record(NamedTuple):
    """A stored value and the revision of the store at which it was written."""

    value: bytes
    revision: int
