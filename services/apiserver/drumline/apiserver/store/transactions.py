"""A batch as an etcd transaction, encoded: one nested transaction for each component.

Written as bytes, because as messages a thousand pods were fifteen thousand objects,
each made to be encoded once. Numbers of fields are those of etcd's rpc.proto.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from drumline.apiserver.store.view import Batch, Key
from drumline.apiserver.store.wire import message_field, number_field

# TxnRequest
_COMPARE, _SUCCESS, _FAILURE = 1, 2, 3
# RequestOp
_RANGE, _PUT, _DELETE, _TXN = 1, 2, 3, 4
# Compare
_COMPARED_KEY, _MOD_REVISION = 3, 6
# PutRequest; a key is the first field of all that have one.
_KEY, _VALUE = 1, 2

# A comparison's target, the revision of the last change; its result, equality, is 0.
_OF_REVISION = number_field(2, 2)


class Part(NamedTuple):
    """A nested transaction: an operation of the outer one, and what it asks for when it fails."""

    encoded: bytes
    asked: list[Key]


def part(batch: Batch, component: Sequence[int], ask: bool) -> Part:
    """Encode the compares and puts of the steps in `component`.

    With `ask`, the records that were compared are read when one of them is not as it was.
    """
    compared: set[Key] = set()
    written: dict[Key, None] = {}
    for step in component:
        read, put = batch.touched[step]
        compared |= read
        written.update(dict.fromkeys(put))
    fields: list[bytes] = []
    for kind, name in compared:
        base = batch.base[kind, name]
        fields.append(
            message_field(
                _COMPARE,
                _OF_REVISION
                + message_field(_COMPARED_KEY, kind.key(name))
                + number_field(_MOD_REVISION, 0 if base is None else base.revision),
            )
        )
    for kind, name in written:
        value = batch.encoded((kind, name))
        key = message_field(_KEY, kind.key(name))
        if value is not None:
            put_request = message_field(_PUT, key + message_field(_VALUE, value))
            fields.append(message_field(_SUCCESS, put_request))
        elif batch.base[kind, name] is not None:
            fields.append(message_field(_SUCCESS, message_field(_DELETE, key)))
    asked = list(compared) if ask else []
    for kind, name in asked:
        key = message_field(_KEY, kind.key(name))
        fields.append(message_field(_FAILURE, message_field(_RANGE, key)))
    return Part(message_field(_TXN, b"".join(fields)), asked)


def whole(parts: Iterable[Part]) -> bytes:
    """Encode the transaction that holds `parts` (TxnRequest)."""
    return b"".join(message_field(_SUCCESS, part.encoded) for part in parts)
