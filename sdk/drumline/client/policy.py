"""What is tried again: pure decisions about failures, without clock and network."""

import re

import grpc
from drumline.model.errors import (
    DeadlineExceededError,
    DrumlineError,
    ResourceExhaustedError,
    UnavailableError,
    from_rpc_error,
)

# Versions are opaque to everyone else. The SDK is released with the apiserver and
# looks at one thing: a version is of a history and ends in a number that grows.
_VERSION = re.compile(r"(.+)-([0-9]{1,18})")


def error_of(failure: grpc.aio.AioRpcError) -> DrumlineError:
    """Give the error that a failed call means.

    An overloaded or ending server cancels calls without a word; that it is
    temporary is all there is to know.
    """
    if failure.code() is grpc.StatusCode.CANCELLED:
        return UnavailableError("the apiserver broke the call off")
    return from_rpc_error(failure)


def wait_before_retry(error: DrumlineError, *, repeatable: bool, delay: float) -> float | None:
    """Give the seconds to wait before the call is sent again; None when it must not be.

    `repeatable` says that sending twice does what sending once does; `delay` is
    the caller's own back-off, and the server's advice where that is longer.
    """
    if not repeatable:
        return None
    advice = error.retry_after
    temporary = isinstance(error, UnavailableError | DeadlineExceededError)
    if temporary or (isinstance(error, ResourceExhaustedError) and advice is not None):
        return max(delay, advice or 0.0)
    return None


def is_temporary(error: DrumlineError) -> bool:
    """Whether a stream that broke off with this error is worth opening again."""
    return wait_before_retry(error, repeatable=True, delay=0.0) is not None


def must_start_over(error: DrumlineError) -> bool:
    """Whether the version that was sent is of no more use: list again."""
    return error.reason in {"COMPACTED", "EPOCH_CHANGED"}


def newest_version(first: str, second: str) -> str:
    """Give the newer of two versions of one history; of two histories, or forms, the second.

    Answers to concurrent writes arrive in any order, so the last one to arrive
    need not be the newest.
    """
    one, other = _VERSION.fullmatch(first), _VERSION.fullmatch(second)
    if one and other and one[1] == other[1] and int(one[2]) > int(other[2]):
        return first
    return second or first


def connection_trouble(details: str) -> str:
    """Say in a few words why no connection came about, from what gRPC says of it."""
    for sign, words in _TROUBLES:
        if sign in details:
            return words
    last = details.rpartition("last error: ")[2]
    return last[:200] or "it does not answer"


_TROUBLES = (
    ("Connection refused", "connection refused, nothing listens there"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not signed by the CA in the context"),
    ("Peer name", "its certificate is not made for this host name"),
    ("Hostname Verification Check failed", "its certificate is not made for this host name"),
    ("Ssl handshake failed", "TLS did not come about; is this an apiserver's port?"),
    ("DNS resolution failed", "the host name is not known"),
    ("Domain name not found", "the host name is not known"),
    ("Network is unreachable", "the network is unreachable"),
    ("No route to host", "there is no route to the host"),
    ("timed out", "it does not answer"),
    ("FD Shutdown", "it does not answer"),
    ("Deadline Exceeded", "it does not answer"),
)
