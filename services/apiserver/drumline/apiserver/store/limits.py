"""What etcd takes in one transaction, found out at start.

etcd's limits are flags of its own (``--max-txn-ops``, ``--max-request-bytes``)
that no call tells, so they are tried: with a transaction whose branch is never
taken, which changes nothing.
"""

from dataclasses import dataclass

from aetcd.rpc import rpc_pb2 as pb
from drumline.apiserver.store.etcd import Etcd, TooLargeError
from drumline.process import logs

_log = logs.get(__name__)

# etcd's defaults, and what deploy/ and `drumline up` set.
_OPERATIONS = (20_000, 8_000, 2_000, 500, 128)
_BYTES = (4 << 20, 3 << 19)

# An assignment compares pod, assignment, status and load, and puts two records; those of
# a group compare the leader together. etcd counts the larger of the two kinds, so that
# three times two leaves room.
_COMPARES_AN_ASSIGNMENT = 3


@dataclass(slots=True)
class Limits:
    """Bounds of a transaction: compares or operations, and bytes of the request.

    Until they are probed they are etcd's defaults.
    """

    operations: int = _OPERATIONS[-1]
    bytes: int = _BYTES[-1]
    etcd_version: str = ""

    @property
    def largest_atomic_assignment(self) -> int:
        """Most pods that one transaction can assign, each to a node of its own."""
        return self.operations // (2 * _COMPARES_AN_ASSIGNMENT)

    async def probe(self, etcd: Etcd) -> None:
        """Find the limits out. Raises UnavailableError when etcd does not answer."""
        self.etcd_version = await etcd.version()
        for count in _OPERATIONS:
            if await _takes(etcd, _never(pb.RangeRequest(key=b"\0"), count)):
                self.operations = count
                break
        for length in _BYTES:
            # What fits is written to etcd's log once, though to no key: more than
            # the apiserver can use is not tried.
            padding = pb.PutRequest(key=b"probe", value=bytes(length - 1024))
            if await _takes(etcd, _never(padding, 1)):
                self.bytes = length
                break
        _log.info(
            "store_limits",
            etcd_version=self.etcd_version,
            operations=self.operations,
            bytes=self.bytes,
            largest_atomic_assignment=self.largest_atomic_assignment,
        )


def _never(operation: object, count: int) -> pb.TxnRequest:
    if isinstance(operation, pb.PutRequest):
        wrapped = pb.RequestOp(request_put=operation)
    else:
        wrapped = pb.RequestOp(request_range=operation)
    impossible = pb.Compare(
        key=b"probe", target=pb.Compare.VERSION, result=pb.Compare.LESS, version=0
    )
    return pb.TxnRequest(compare=[impossible], success=[wrapped] * count)


async def _takes(etcd: Etcd, request: pb.TxnRequest) -> bool:
    try:
        await etcd.txn(request.SerializeToString())
    except TooLargeError:
        return False
    return True
