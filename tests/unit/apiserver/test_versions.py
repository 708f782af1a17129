"""Versions as clients hold them, and protobuf's wire format as far as it is written by hand."""

import pytest
from drumline.api.v1 import pod_pb2, pod_service_pb2
from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.cache.objects import new_pod, version_part
from drumline.apiserver.cache.versions import revision_of, version
from drumline.apiserver.rpc.common import page_token, read_page_token
from drumline.apiserver.store import wire
from drumline.model.errors import FailedPreconditionError, InvalidArgumentError
from drumline.storage.v1.records_pb2 import PodRecord
from hypothesis import given
from hypothesis import strategies as st


@given(st.text("0123456789abcdef", min_size=1), st.integers(0, 10**18 - 1))
def test_a_version_means_the_revision_it_was_made_of(epoch: str, revision: int) -> None:
    assert revision_of(version(epoch, revision), epoch, "field") == revision


def test_no_version_means_no_revision() -> None:
    assert revision_of("", "e", "field") == 0


@given(st.text().filter(bool))
def test_any_other_text_is_refused_by_field_or_is_of_another_history(text: str) -> None:
    with pytest.raises((InvalidArgumentError, FailedPreconditionError)) as caught:
        revision_of(text, "the epoch", "field")
    refusal = caught.value
    if isinstance(refusal, InvalidArgumentError):
        assert [v.field for v in refusal.violations] == ["field"]
    else:
        assert refusal.reason == "EPOCH_CHANGED"


def test_a_version_of_another_history_says_so() -> None:
    with pytest.raises(FailedPreconditionError) as caught:
        revision_of("other-5", "epoch", "field")
    assert caught.value.reason == "EPOCH_CHANGED"


@given(st.integers(0, 2**63))
def test_numbers_are_written_as_protobuf_writes_them(number: int) -> None:
    if number < 2**31:
        event = pod_service_pb2.WaitForPodsRequest(condition=number)  # type: ignore[arg-type]
        assert wire.number_field(2, number) == (event.SerializeToString() or b"\x10\x00")
    decoded, shift = 0, 0
    for byte in wire.varint(number):
        decoded |= (byte & 0x7F) << shift
        shift += 7
    assert decoded == number


@given(st.integers(1, 500), st.binary(max_size=300))
def test_fields_are_written_as_protobuf_reads_them(count: int, data: bytes) -> None:
    sent = pod_service_pb2.StreamLogsResponse(data=data * count)
    if data:
        assert wire.message_field(1, sent.data) == sent.SerializeToString()


@given(st.text(max_size=20), st.text(max_size=20))
def test_an_object_is_its_parts_one_after_another(name: str, resource_version: str) -> None:
    pod = pod_pb2.Pod()
    pod.metadata.name = name
    pod.spec.scheduler_name = "custom"
    stored = PodRecord(metadata=pod.metadata, spec=pod.spec).SerializeToString()
    assert pod_pb2.Pod.FromString(stored) == pod
    joined = pod_pb2.Pod.FromString(new_pod(stored, "custom", resource_version))
    pod.metadata.resource_version = resource_version
    pod.status.phase = pod_pb2.PHASE_PENDING
    pod.status.reason, pod.status.waiting_on = "UNSCHEDULED", "scheduler:custom"
    assert joined == pod
    assert pod_pb2.Pod.FromString(version_part("x")).metadata.resource_version == "x"


def test_a_page_token_belongs_to_one_list_of_one_history() -> None:
    cache = Cache(None, history=1, patience=1)  # type: ignore[arg-type]
    cache.epoch = "one"
    selector = pod_service_pb2.PodSelector(namespace="team")
    token = page_token(cache, 7, selector, "team/web|x")
    assert read_page_token(cache, token, selector) == (7, "team/web|x")
    with pytest.raises(InvalidArgumentError):
        read_page_token(cache, token, pod_service_pb2.PodSelector())
    with pytest.raises(InvalidArgumentError):
        read_page_token(cache, token, None)
    cache.epoch = "two"
    with pytest.raises(FailedPreconditionError) as caught:
        read_page_token(cache, token, selector)
    assert caught.value.reason == "EPOCH_CHANGED"
