"""A local cluster's whole life: made ready, started, watched over, ended."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.cli import output
from drumline.cli.failures import CommandError
from drumline.cli.up import certificates, components, etcd, leftovers
from drumline.cli.up.state import Plan, StateFolder
from drumline.cli.up.supervisor import HopelessError, Supervisor
from drumline.process import clock, pki
from drumline.process.tls import TlsFiles

if TYPE_CHECKING:
    from drumline.client import Client
    from drumline.client.context import Context

# The cluster is given up when it has not answered by then.
_ANSWER_SECONDS = 60.0
# Nodes that are not ready by then are told, and no more waited for.
_READY_SECONDS = 120.0
_PAUSE_SECONDS = 0.02
# Names that `up` gives.
_OWN_NODE = re.compile(r"(node|sim)-[0-9]+")


@dataclass(frozen=True, slots=True)
class Told:
    """Something that happened."""

    kind: str
    """"step": it is under way; "line": it is done; "warning"; "ready": the cluster is up."""
    text: str


Tell = Callable[[Told], None]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asks for; None: as before."""

    nodes: int | None
    simulated_nodes: int | None
    etcd: str
    context: Path
    """The context file that commands read."""


async def run(folder: StateFolder, wishes: Wishes, tell: Tell) -> None:
    """Run the cluster until SIGINT or SIGTERM; the folder is locked by the caller.

    Raises CommandError when it does not come up.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    began = clock.monotonic()
    _clear_up(folder, tell)
    # etcd tells its version while certificates are made.
    asked = asyncio.create_task(asyncio.to_thread(etcd.with_version, etcd.find(wishes.etcd)))
    plan = folder.plan(wishes.nodes, wishes.simulated_nodes)
    make_certificates(folder, plan)
    binary = await asked
    tell(Told("line", f"etcd {binary.version}, {binary.origin} ({binary.path})"))
    if binary.warning:
        tell(Told("warning", binary.warning))
    supervisor = Supervisor(
        folder,
        components.components(plan, folder, etcd.command(binary, plan, folder)),
        lambda text: tell(Told("warning", text)),
    )
    try:
        await supervisor.start()
        started = f"Started etcd, apiserver, nodecontroller, scheduler, {_nodes(plan)}"
        tell(Told("line", f"{started}; logs in {folder.logs}"))
        bring_up = _bring_up(folder, plan, wishes, supervisor, tell, began)
        await _first(stop.wait(), supervisor.wait(), bring_up)
    except HopelessError as error:
        raise CommandError(str(error)) from error
    finally:
        tell(Told("step", "Ending pods, then nodes, then the control plane"))
        await supervisor.end()
        leftovers.end_pods(folder)
        tell(Told("line", f"The cluster has ended; its state stays in {folder.path}"))


def make_certificates(folder: StateFolder, plan: Plan) -> None:
    """Make what is missing; etcd has an authority of its own: only apiservers reach it."""
    now = clock.wall()
    certificates.ensure(folder.tls, plan.node_names, now)
    pki.ensure_certificates(
        folder.etcd_tls,
        [
            pki.CertificateRequest("etcd", "system:etcd"),
            pki.CertificateRequest("apiserver", "system:apiserver"),
        ],
        now,
    )


def _clear_up(folder: StateFolder, tell: Tell) -> None:
    before = folder.run()
    if before is not None:
        ended = leftovers.end_processes(before)
        if ended:
            what = output.count(ended, "process", "processes")
            tell(Told("warning", f"Ended {what} of a cluster that was not ended in order"))
        folder.forget_run()


async def _bring_up(
    folder: StateFolder,
    plan: Plan,
    wishes: Wishes,
    supervisor: Supervisor,
    tell: Tell,
    began: float,
) -> None:
    """Say when the cluster answers and when its nodes are ready; then wait for ever."""
    from drumline.client import Client, context

    address = plan.address("apiserver")
    tls = TlsFiles.in_folder(folder.tls, certificates.USER)
    tell(Told("step", f"Waiting for the apiserver at {address}"))
    async with _within(_ANSWER_SECONDS, f"the apiserver at {address} did not answer", folder):
        identity = await _first_answer(address, tls)
    seconds = clock.monotonic() - began
    tell(Told("line", f"The apiserver at {address} answers {identity} after {seconds:.1f} s"))
    made = context.Context((address,), tls, folder.path)
    context.save(folder.context, made)
    _save_context(wishes.context, made, folder, tell)
    tell(Told("step", "Waiting for the nodes"))
    wanted = len(plan.all_node_names)
    async with Client(made.addresses, tls) as client:
        await _forget_nodes(client, plan, tell)
        ready = await _count_ready(client, set(plan.all_node_names))
    seconds = clock.monotonic() - began
    if ready < wanted:
        missing = f"{ready} of {output.count(wanted, 'node')} are ready"
        tell(Told("warning", f"Only {missing} after {seconds:.0f} s; see {folder.logs}"))
    elif wanted:
        tell(Told("line", f"{output.count(wanted, 'node')} ready after {seconds:.1f} s"))
    supervisor.proven = True
    tell(Told("ready", "The cluster is up"))
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _within(seconds: float, what: str, folder: StateFolder) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise CommandError(
            f"{what} within {seconds:.0f} s", f"The logs may say why: {folder.logs}"
        ) from None


async def _first_answer(address: str, tls: TlsFiles) -> str:
    """Wait for the first request to be answered; give the identity that the answer names."""
    import grpc
    from drumline.api.v1.cluster_service_pb2 import GetVersionRequest
    from drumline.api.v1.cluster_service_pb2_grpc import ClusterServiceStub
    from drumline.process.channels import channel

    host, _, port = address.rpartition(":")
    # Until something listens a plain connection tells that sooner than gRPC, which
    # waits longer after each refusal.
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            writer.close()
            break
    async with channel(address, tls) as opened:
        stub = ClusterServiceStub(opened)
        while True:
            try:
                answer = await stub.GetVersion(GetVersionRequest(), timeout=5.0)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise CommandError(f"the apiserver refuses: {error.details()}") from error
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return answer.identity


async def _forget_nodes(client: Client, plan: Plan, tell: Tell) -> None:
    """Delete the nodes of an earlier, larger plan: pods must not be placed on them."""
    there = {node.metadata.name async for node in client.list_nodes()}
    left = sorted(filter(_OWN_NODE.fullmatch, there - set(plan.all_node_names)))
    if not left:
        return
    results = await client.delete_nodes(left)
    gone = sum(result.error is None for result in results)
    if gone:
        tell(Told("line", f"Forgot {output.count(gone, 'node')} that it had before"))


async def _count_ready(client: Client, wanted: set[str]) -> int:
    """Wait until these nodes are ready; give how many are in the end."""
    from drumline.api.v1.node_pb2 import NODE_STATE_READY
    from drumline.client import Changed

    ready: set[str] = set()
    if not wanted:
        return 0
    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(_READY_SECONDS),
            contextlib.aclosing(client.watch_nodes()) as events,
        ):
            async for event in events:
                if isinstance(event, Changed):
                    name = event.object.metadata.name
                    ready.discard(name)
                    if event.object.status.state == NODE_STATE_READY and name in wanted:
                        ready.add(name)
                if len(ready) == len(wanted):
                    break
    return len(ready)


def _save_context(path: Path, made: Context, folder: StateFolder, tell: Tell) -> None:
    """Write the context that commands read, unless another kind of cluster wrote it."""
    from drumline.client import context
    from drumline.model.errors import DrumlineError

    try:
        is_ours = not path.exists() or context.state_dir_of(path) is not None
    except DrumlineError:
        is_ours = False
    if is_ours:
        context.save(path, made)
    else:
        own = f"{context.VARIABLE}={folder.context}"
        tell(Told("warning", f"{path} names another cluster and stays; for this one set {own}"))


async def _first(*works: Coroutine[Any, Any, object]) -> None:
    """Await several things until the first has ended; its failure is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _nodes(plan: Plan) -> str:
    parts = []
    if plan.nodes:
        parts.append(output.count(plan.nodes, "kubelet"))
    if plan.simulated_nodes:
        parts.append(f"a simulator of {output.count(plan.simulated_nodes, 'node')}")
    return " and ".join(parts) or "no node"
