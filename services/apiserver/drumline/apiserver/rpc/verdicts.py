"""What a scheduler may say of a pod: bounded, because every reader of the pod is sent it."""

from collections.abc import Iterable

from drumline.api.v1 import pod_pb2
from drumline.model.errors import Violation

_MAX_CAUSES = 64
_MAX_TEXT = 4096


def check(verdict: pod_pb2.Verdict, path: str) -> list[Violation]:
    """Check a verdict; `path` is where it is in the request."""
    found = texts(
        **{
            f"{path}.reason": verdict.reason,
            f"{path}.message": verdict.message,
            f"{path}.help": verdict.help,
            f"{path}.nearest.node": verdict.nearest.node,
        }
    )
    if not verdict.reason:
        found.append(Violation(f"{path}.reason", "is required"))
    return (
        found
        + _causes(verdict.causes, f"{path}.causes")
        + _causes(verdict.nearest.missing, f"{path}.nearest.missing")
    )


def _causes(causes: Iterable[pod_pb2.VerdictCause], path: str) -> list[Violation]:
    found: list[Violation] = []
    for index, cause in enumerate(causes):
        if index == _MAX_CAUSES:
            return [*found, Violation(path, f"at most {_MAX_CAUSES}")]
        at = f"{path}[{index}]"
        found += texts(
            **{
                f"{at}.reason": cause.reason,
                f"{at}.message": cause.message,
                f"{at}.example_node": cause.example_node,
                f"{at}.decided_by": cause.decided_by,
            }
        )
    return found


def texts(**by_path: str) -> list[Violation]:
    """Check the lengths of texts."""
    return [
        Violation(path, f"at most {_MAX_TEXT} characters")
        for path, text in by_path.items()
        if len(text) > _MAX_TEXT
    ]
