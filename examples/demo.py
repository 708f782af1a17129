"""Runs a whole cluster once, as a user would, and checks that all of it really happened.

``make demo``, or ``python examples/demo.py``: brings a cluster of three nodes up in
a folder of its own, applies the manifests beside this file, follows the pods to
their end, shows what they wrote, lets a pod that fits nowhere be explained, and
ends everything. Its exit status is 0 only if every step did what it should.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from drumline.api.v1.pod_pb2 import PHASE_TERMINATED, Pod
from drumline.cli import views
from drumline.cli.up.state import StateFolder
from drumline.client import Changed, Client
from rich.console import Console
from rich.live import Live
from rich.table import Table

EXAMPLES = Path(__file__).resolve().parent
NODES = 3
FOLLOW_SECONDS = 60.0
VERDICT_SECONDS = 30.0

# Namespace, pod and container; how the container ends, and words of its output.
EXPECTED = {
    ("default", "hello", "main"): (0, "Hello from Drumline"),
    ("default", "counter", "main"): (0, "1\n2\n3\n4\n5\n"),
    ("default", "failing", "main"): (3, "This cannot go well."),
    ("default", "two-containers", "first"): (0, "first is done"),
    ("default", "two-containers", "second"): (0, "second is done"),
    ("batch", "primes", "main"): (0, "168 primes below 1000"),
    ("batch", "surroundings", "main"): (0, "a file"),
}
PODS = {(namespace, name) for namespace, name, _ in EXPECTED}

console = Console()


class NotAsExpectedError(Exception):
    """Something did not happen as it should; the message says what."""


def check(fact: bool, otherwise: str) -> None:
    """Go on only if it is a fact."""
    if not fact:
        raise NotAsExpectedError(otherwise)


def drumline(*words: str) -> str:
    """Run a command, show it and what it says, give its output; it must succeed."""
    console.print(f"\n[bold]$ drumline {' '.join(words)}[/]", highlight=False)
    command = Path(sys.executable).parent / "drumline"
    done = subprocess.run([command, *words], stdout=subprocess.PIPE, text=True, check=False)
    sys.stdout.write(done.stdout)
    sys.stdout.flush()
    check(done.returncode == 0, f"drumline {words[0]} ended with status {done.returncode}")
    return done.stdout


@contextmanager
def cluster() -> Iterator[Path]:
    """Have a cluster while the block runs; give its state folder."""
    with tempfile.TemporaryDirectory(prefix="drumline-demo-") as folder:
        state = Path(folder) / "state"
        os.environ["DRUMLINE_STATE_DIR"] = str(state)
        os.environ["DRUMLINE_CONTEXT"] = str(Path(folder) / "context.toml")
        try:
            drumline("up", "--detach", "--nodes", str(NODES))
            yield state
        except BaseException:
            subprocess.run(
                [Path(sys.executable).parent / "drumline", "down"],
                stdout=subprocess.DEVNULL,
                check=False,
            )
            raise


async def follow() -> dict[tuple[str, str], Pod]:
    """Show the pods in a live table until all have ended; give their last states."""
    pods: dict[tuple[str, str], Pod] = {}
    told: dict[tuple[str, str], str] = {}
    async with Client.from_context() as client, aclosing(client.watch_pods()) as events:
        with Live(console=console, refresh_per_second=10) as live:
            async for event in events:
                if not isinstance(event, Changed):
                    continue
                key = (event.object.metadata.namespace, event.object.metadata.name)
                pods[key] = event.object
                if console.is_terminal:
                    live.update(table(pods))
                elif told.get(key) != (said := views.pod_status(event.object)):
                    told[key] = said
                    print(f"  {'/'.join(key):24} {said}", flush=True)
                if all(has_ended(pods.get(pod)) for pod in PODS):
                    return pods
    raise NotAsExpectedError("the watch of the pods ended")


def has_ended(pod: Pod | None) -> bool:
    """Whether a pod is known to have ended."""
    return pod is not None and pod.status.phase == PHASE_TERMINATED


def table(pods: dict[tuple[str, str], Pod]) -> Table:
    """Lay the pods out."""
    made = Table("namespace", "name", "status", "node", "exit", box=None, pad_edge=False)
    colors = {"Pending": "yellow", "Running": "cyan", "Terminated (COMPLETED)": "green"}
    for (namespace, name), pod in sorted(pods.items()):
        status = views.pod_status(pod)
        color = colors.get(status) or colors.get(status.split()[0], "red")
        ways = [views.exit_words(c) for c in pod.status.containers if views.ended(c)]
        row = (namespace, name, f"[{color}]{status}[/]", pod.assignment.node, ",".join(ways))
        made.add_row(*row)
    return made


def check_ends(pods: dict[tuple[str, str], Pod]) -> None:
    """Check that every container ended as its manifest makes it end, on the cluster's nodes."""
    for (namespace, name, container), (code, _) in EXPECTED.items():
        pod = pods[namespace, name]
        found = next((c for c in pod.status.containers if c.name == container), None)
        check(
            found is not None and found.HasField("exit_code") and found.exit_code == code,
            f"container {container} of pod {name} did not end with exit code {code}",
        )
        should = "COMPLETED" if code == 0 else "FAILED"
        check(pod.status.reason == should, f"pod {name} is {pod.status.reason}, not {should}")
    nodes = {pod.assignment.node for pod in pods.values()}
    check(nodes <= {f"node-{n}" for n in range(1, NODES + 1)}, f"pods ran on {nodes}")
    check(len(nodes) > 1, "all pods ran on one node")


def show_logs() -> None:
    """Show each container's output, and check it."""
    for (namespace, name, container), (_, words) in EXPECTED.items():
        several = sum(pod[:2] == (namespace, name) for pod in EXPECTED) > 1
        options = ["-n", namespace] if namespace != "default" else []
        options += ["-c", container] if several else []
        said = drumline("logs", name, *options)
        check(words in said, f"container {container} of pod {name} did not write {words!r}")


async def judged(name: str) -> Pod:
    """Wait for a scheduler's verdict on a pod."""
    async with Client.from_context() as client, aclosing(client.watch_pods("default")) as events:
        async for event in events:
            if isinstance(event, Changed) and event.object.metadata.name == name:
                pod = event.object
                check(not pod.HasField("assignment"), f"pod {name} was placed")
                if pod.HasField("verdict"):
                    return pod
    raise NotAsExpectedError("the watch of the pods ended")


def explain_unplaceable() -> None:
    """Apply a pod that fits nowhere, and have it explained."""
    drumline("apply", "-f", str(EXAMPLES / "unplaceable"))
    pod = asyncio.run(asyncio.wait_for(judged("too-large"), VERDICT_SECONDS))
    check(pod.verdict.reason == "NO_NODE_FITS", f"the verdict is {pod.verdict.reason}")
    counts = {cause.reason: cause.nodes for cause in pod.verdict.causes}
    check(counts == {"INSUFFICIENT_CPU": NODES}, f"the causes are {counts}")
    said = drumline("describe", "pod", "too-large")
    check("INSUFFICIENT_CPU" in said, "the description does not name the cause")


def shut_down(state: Path) -> None:
    """End the cluster, and check that no process of it is left."""
    run = StateFolder(state).run()
    assert run is not None
    drumline("down", "--delete")
    processes = {"the supervisor": run.supervisor, **run.components}
    left = [name for name, process in processes.items() if process.lives]
    check(not left, f"processes are left: {left}")
    check(not state.exists(), f"{state} is left")


def main() -> int:
    """Run the demonstration; give its exit status."""
    try:
        with cluster() as state:
            drumline("get", "nodes")
            drumline("apply", "-f", str(EXAMPLES))
            console.print("\n[bold]The pods, until all have ended:[/]")
            pods = asyncio.run(asyncio.wait_for(follow(), FOLLOW_SECONDS))
            check_ends(pods)
            show_logs()
            explain_unplaceable()
            shut_down(state)
    except (NotAsExpectedError, TimeoutError) as error:
        what = str(error) or "it took too long"
        console.print(f"\n[bold red]Not as it should be: {what}.[/]", highlight=False)
        return 1
    console.print("\n[bold green]All of that happened as it should.[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
