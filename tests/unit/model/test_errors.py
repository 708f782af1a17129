"""An error that crosses the wire is caught as what was raised."""

import grpc
import pytest
from drumline.model import errors
from drumline.model.errors import DrumlineError, Violation
from google.protobuf.duration_pb2 import Duration
from google.rpc.status_pb2 import Status

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]
KINDS = [kind for kind in KINDS if issubclass(kind, DrumlineError) and kind is not DrumlineError]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_back_whole(kind: type[DrumlineError]) -> None:
    raised = kind(
        "It did not work; try again.",
        reason="SOME_REASON",
        metadata={"node": "node-1"},
        violations=[Violation("pods[0].spec", "is wrong"), Violation("pods[1]", "is too")],
        retry_after=1.5,
    )
    caught = errors.from_status(Status.FromString(errors.to_status(raised).SerializeToString()))
    assert type(caught) is kind
    assert vars(caught) == vars(raised)
    assert str(caught) == "It did not work; try again."


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_without_details_has_its_own_reason(kind: type[DrumlineError]) -> None:
    bare = errors.from_status(Status(code=kind("x").code.value[0], message="Said so."))
    assert type(bare) is kind
    assert (bare.reason, bare.violations, bare.retry_after) == (kind.default_reason, (), None)


def test_an_unknown_detail_is_passed_over() -> None:
    status = errors.to_status(errors.NotFoundError("No such pod.", reason="POD_NOT_FOUND"))
    status.details.add().Pack(Duration(seconds=1))
    assert errors.from_status(status).reason == "POD_NOT_FOUND"


def test_an_invalid_argument_names_every_violation_in_its_sentence() -> None:
    error = errors.InvalidArgumentError.of(
        [Violation("pods[0].metadata.name", "is required"), Violation("", "is empty")]
    )
    assert str(error) == "pods[0].metadata.name: is required; is empty"
    assert len(error.violations) == 2


def test_a_failed_call_without_details_is_told_by_its_code() -> None:
    call = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE,
        grpc.aio.Metadata(),
        grpc.aio.Metadata(),
        details="connection refused",
    )
    caught = errors.from_rpc_error(call)
    assert type(caught) is errors.UnavailableError
    assert caught.message == "connection refused"


def test_a_failed_call_with_details_is_told_by_them() -> None:
    raised = errors.ConflictError("Changed meanwhile.", reason="VERSION_CHANGED")
    trailing = grpc.aio.Metadata(
        ("grpc-status-details-bin", errors.to_status(raised).SerializeToString())
    )
    call = grpc.aio.AioRpcError(grpc.StatusCode.ABORTED, grpc.aio.Metadata(), trailing)
    caught = errors.from_rpc_error(call)
    assert type(caught) is errors.ConflictError
    assert caught.reason == "VERSION_CHANGED"
