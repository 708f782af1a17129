"""Waits for pods, and says what came of it; used by `wait`, `delete` and `run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drumline.cli import failures
from drumline.cli.failures import FAILED, NOT_FOUND, TIMED_OUT
from drumline.cli.progress import Progress

if TYPE_CHECKING:
    from drumline.api.v1.metadata_pb2 import PodReference
    from drumline.api.v1.pod_service_pb2 import PodCondition, WaitResult
    from drumline.client import Client

WORDS = ("assigned", "running", "terminated", "deleted")


def condition_of(word: str) -> PodCondition.ValueType:
    """Give the condition that one of `WORDS` means."""
    from drumline.api.v1.pod_service_pb2 import PodCondition

    return PodCondition.Value(f"POD_CONDITION_{word.upper()}")


async def wait_and_tell(
    client: Client, pods: Sequence[PodReference], word: str, timeout: float
) -> int:
    """Wait until pods are `word`; tell each one's result as it comes; give an exit code."""
    from drumline.api.v1.metadata_pb2 import ObjectMeta
    from drumline.api.v1.pod_service_pb2 import (
        WAIT_OUTCOME_IMPOSSIBLE,
        WAIT_OUTCOME_REACHED,
    )
    from drumline.cli.views import full_name

    codes: set[int] = set()
    left = len(pods)
    with Progress(f"Waiting for {left} to be {word}") as progress:

        def tell(result: WaitResult) -> None:
            nonlocal left
            left -= 1
            progress.update(f"Waiting for {left} to be {word}")
            meta = ObjectMeta(namespace=result.reference.namespace, name=result.reference.name)
            name = full_name(meta, "pod")
            if result.outcome == WAIT_OUTCOME_REACHED:
                progress.say(f"{name} {word}")
            elif result.outcome == WAIT_OUTCOME_IMPOSSIBLE:
                codes.add(FAILED if result.HasField("pod") else NOT_FOUND)
                failures.say(f"{name} will not be {word}: {result.message}")
            else:
                codes.add(TIMED_OUT)
                failures.say(f"{name} is not {word} yet: {result.message}")

        await client.wait_for_pods(pods, condition_of(word), timeout=timeout, on_result=tell)
    return next((code for code in (TIMED_OUT, FAILED, NOT_FOUND) if code in codes), 0)
