"""Every error that Drumline raises on purpose, and its form on the wire.

The tree, with the gRPC code of each::

    DrumlineError
    ├── InvalidArgumentError     INVALID_ARGUMENT      every violation at once, by field path
    ├── UnauthenticatedError     UNAUTHENTICATED       no certificate, or one that names nobody
    ├── PermissionDeniedError    PERMISSION_DENIED     known, but may not
    ├── NotFoundError            NOT_FOUND
    ├── AlreadyExistsError       ALREADY_EXISTS
    ├── ConflictError            ABORTED               changed meanwhile: read again, then decide
    ├── FailedPreconditionError  FAILED_PRECONDITION   something else must change first
    ├── OutOfRangeError          OUT_OF_RANGE          a version that is no longer known
    ├── ResourceExhaustedError   RESOURCE_EXHAUSTED    a limit; may pass with time
    ├── UnavailableError         UNAVAILABLE           temporary: try again after `retry_after`
    ├── DeadlineExceededError    DEADLINE_EXCEEDED
    └── InternalError            INTERNAL, UNKNOWN and whatever else a peer may answer

On the wire an error is a ``google.rpc.Status`` with ``ErrorInfo`` (domain
``drumline.dev``, the stable reason, metadata), and ``BadRequest``,
``PreconditionFailure`` or ``RetryInfo`` where they apply. `to_status` and
`from_status` are the only two places that know this form; servers use the one,
clients the other, so that a caller catches the same type that was raised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, PreconditionFailure, RetryInfo
from google.rpc.status_pb2 import Status

DOMAIN = "drumline.dev"

_STATUS_DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong, and where: `field` is a path such as ``pods[2].spec.containers``."""

    field: str
    description: str


class DrumlineError(Exception):
    """Base of all errors on purpose.

    `message` is a sentence for people: what happened, what it means, what to do.
    `reason` is a stable upper-case word for programs; `metadata` are facts about
    the case; `violations` name fields or preconditions; `retry_after` is in
    seconds, or None when trying again does not help by itself.
    """

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL
    default_reason: ClassVar[str] = "INTERNAL"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[Violation] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.retry_after = retry_after


class InvalidArgumentError(DrumlineError):
    """The request is wrong in itself; sending it again cannot help."""

    code = grpc.StatusCode.INVALID_ARGUMENT
    default_reason = "INVALID"

    @classmethod
    def of(
        cls, violations: Sequence[Violation], *, reason: str | None = None
    ) -> "InvalidArgumentError":
        """Make one out of at least one violation; the sentence names them all."""
        said = "; ".join(
            f"{v.field}: {v.description}" if v.field else v.description for v in violations
        )
        return cls(said, reason=reason, violations=violations)


class UnauthenticatedError(DrumlineError):
    """The caller has shown no identity."""

    code = grpc.StatusCode.UNAUTHENTICATED
    default_reason = "UNAUTHENTICATED"


class PermissionDeniedError(DrumlineError):
    """The caller is known and may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED
    default_reason = "PERMISSION_DENIED"


class NotFoundError(DrumlineError):
    """What the request names is not there."""

    code = grpc.StatusCode.NOT_FOUND
    default_reason = "NOT_FOUND"


class AlreadyExistsError(DrumlineError):
    """An object of this name is there already."""

    code = grpc.StatusCode.ALREADY_EXISTS
    default_reason = "ALREADY_EXISTS"


class ConflictError(DrumlineError):
    """What the decision was made on has changed: read again, then decide."""

    code = grpc.StatusCode.ABORTED
    default_reason = "CONFLICT"


class FailedPreconditionError(DrumlineError):
    """Something else has to change first."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    default_reason = "FAILED_PRECONDITION"


class OutOfRangeError(DrumlineError):
    """A version that is no longer known, or a page that is no longer there."""

    code = grpc.StatusCode.OUT_OF_RANGE
    default_reason = "COMPACTED"


class ResourceExhaustedError(DrumlineError):
    """A limit is reached."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    default_reason = "RESOURCE_EXHAUSTED"


class UnavailableError(DrumlineError):
    """The peer, or what it depends on, does not answer now."""

    code = grpc.StatusCode.UNAVAILABLE
    default_reason = "UNAVAILABLE"


class DeadlineExceededError(DrumlineError):
    """No answer by the deadline; the outcome is not known."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED
    default_reason = "DEADLINE_EXCEEDED"


class InternalError(DrumlineError):
    """A fault of the peer."""


_BY_CODE: dict[int, type[DrumlineError]] = {
    kind.code.value[0]: kind
    for kind in (
        InvalidArgumentError,
        UnauthenticatedError,
        PermissionDeniedError,
        NotFoundError,
        AlreadyExistsError,
        ConflictError,
        FailedPreconditionError,
        OutOfRangeError,
        ResourceExhaustedError,
        UnavailableError,
        DeadlineExceededError,
        InternalError,
    )
}


def to_status(error: DrumlineError) -> Status:
    """Give the error's form on the wire."""
    status = Status(code=error.code.value[0], message=error.message)
    status.details.add().Pack(
        ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
    )
    if error.violations and isinstance(error, InvalidArgumentError):
        bad_request = BadRequest()
        for violation in error.violations:
            bad_request.field_violations.add(
                field=violation.field, description=violation.description
            )
        status.details.add().Pack(bad_request)
    elif error.violations:
        failure = PreconditionFailure()
        for violation in error.violations:
            failure.violations.add(
                type=error.reason, subject=violation.field, description=violation.description
            )
        status.details.add().Pack(failure)
    if error.retry_after is not None:
        delay = Duration()
        delay.FromNanoseconds(int(error.retry_after * 1e9))
        status.details.add().Pack(RetryInfo(retry_delay=delay))
    return status


def from_status(status: Status) -> DrumlineError:
    """Give the error that a peer meant; the status is not OK."""
    reason: str | None = None
    metadata: dict[str, str] = {}
    violations: list[Violation] = []
    retry_after: float | None = None
    info, bad_request = ErrorInfo(), BadRequest()
    failure, retry = PreconditionFailure(), RetryInfo()
    for detail in status.details:
        if detail.Unpack(info):
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(bad_request):
            violations += [Violation(v.field, v.description) for v in bad_request.field_violations]
        elif detail.Unpack(failure):
            violations += [Violation(v.subject, v.description) for v in failure.violations]
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.ToNanoseconds() / 1e9
    kind = _BY_CODE.get(status.code, InternalError)
    return kind(
        status.message,
        reason=reason,
        metadata=metadata,
        violations=violations,
        retry_after=retry_after,
    )


def from_rpc_error(error: grpc.RpcError) -> DrumlineError:
    """Give the error that a failed call means; without details, by its code alone."""
    metadata = (
        error.trailing_metadata() or ()
        if isinstance(error, grpc.Call | grpc.aio.AioRpcError)
        else ()
    )
    for key, value in metadata:
        if key == _STATUS_DETAILS_KEY and isinstance(value, bytes):
            return from_status(Status.FromString(value))
    if not isinstance(error, grpc.Call | grpc.aio.AioRpcError):
        return InternalError(str(error))
    number, _ = error.code().value
    return from_status(Status(code=number, message=error.details() or ""))
