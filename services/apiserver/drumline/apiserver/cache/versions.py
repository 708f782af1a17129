"""Versions as clients see them: the store's epoch and a revision, in one opaque string."""

from drumline.model.errors import FailedPreconditionError, InvalidArgumentError, Violation


def version(epoch: str, revision: int) -> str:
    """Give the version of `revision` in the history `epoch`."""
    return f"{epoch}-{revision}"


def revision_of(text: str, epoch: str, field: str) -> int:
    """Give the revision that a client's version means; 0 for an empty one.

    Raises InvalidArgumentError when it is none, FailedPreconditionError with
    reason EPOCH_CHANGED when it is of another history.
    """
    if not text:
        return 0
    named, _, digits = text.rpartition("-")
    if not named or not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise InvalidArgumentError.of(
            [Violation(field, "is not a version that this cluster has given out")]
        )
    if named != epoch:
        raise epoch_changed()
    return int(digits)


def epoch_changed() -> FailedPreconditionError:
    """Give the error for a version of another history of the store."""
    return FailedPreconditionError(
        "the version is of another history: the store was replaced or restored since;"
        " list again and go on from there",
        reason="EPOCH_CHANGED",
    )
