"""What etcd is sent says what etcd's own messages would."""

from aetcd.rpc import rpc_pb2
from drumline.apiserver.store import transactions
from drumline.apiserver.store.kinds import QUOTA_USES, Record
from drumline.apiserver.store.view import Batch, Key, View
from drumline.storage.v1.records_pb2 import QuotaUseRecord
from hypothesis import given
from hypothesis import strategies as st

# Of each record its value, or none, and its revision: -1 is that of no history.
records = st.tuples(st.none() | st.integers(1, 1 << 40), st.sampled_from([-1, 1, 127, 1 << 62]))


def value(pods: int) -> QuotaUseRecord:
    record = QuotaUseRecord()
    record.usage.stored_pods = pods
    return record


@given(
    stored=st.dictionaries(st.text(min_size=1, max_size=200), records, min_size=1, max_size=4),
    new=st.none() | st.integers(1, 1 << 40),
    ask=st.booleans(),
)
def test_a_nested_transaction_compares_puts_deletes_and_asks(
    stored: dict[str, tuple[int | None, int]], new: int | None, ask: bool
) -> None:
    def lookup(key: Key) -> Record | None:
        pods, revision = stored[key[1]]
        return None if pods is None else Record(value(pods).SerializeToString(), revision)

    batch = Batch(lookup)
    view = View(batch)
    for name in stored:
        view.get(QUOTA_USES, name)
    changed = next(iter(stored))
    if new is None:
        view.delete(QUOTA_USES, changed)
    else:
        view.put(QUOTA_USES, changed, value(new))
    batch.add(view)

    expected = rpc_pb2.TxnRequest()
    key = QUOTA_USES.key(changed)
    if new is not None:
        operation = expected.success.add()
        operation.request_put.key, operation.request_put.value = key, value(new).SerializeToString()
    elif stored[changed][0] is not None:
        expected.success.add().request_delete_range.key = key

    part = transactions.part(batch, [0], ask)
    (operation,) = rpc_pb2.TxnRequest.FromString(transactions.whole([part])).success
    sent = operation.request_txn
    assert {c.key: c.mod_revision for c in sent.compare} == {
        QUOTA_USES.key(name): 0 if pods is None else revision
        for name, (pods, revision) in stored.items()
    }
    assert {(c.result, c.target) for c in sent.compare} == {
        (rpc_pb2.Compare.EQUAL, rpc_pb2.Compare.MOD)
    }
    assert list(sent.success) == list(expected.success)
    asked = [operation.request_range.key for operation in sent.failure]
    assert asked == [kind.key(name) for kind, name in part.asked]
    assert sorted(asked) == (sorted(map(QUOTA_USES.key, stored)) if ask else [])
