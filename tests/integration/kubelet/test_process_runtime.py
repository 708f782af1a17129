"""Pods as real processes, under the process runtime alone."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from drumline.api.v1.pod_pb2 import Pod
from drumline.kubelet.process_runtime import ProcessRuntime
from drumline.kubelet.runtime import PodState, RecoveredPod
from drumline.model.errors import InvalidArgumentError, NotFoundError

from tests.integration.kubelet.helpers import (
    alive,
    make_pod,
    pid_in,
    processes_of,
    program_of,
    shell,
    until,
)


class Host:
    """A runtime, and the newest state of each of its pods."""

    def __init__(self, runtime: ProcessRuntime) -> None:
        self.runtime = runtime
        self.states: dict[str, PodState] = {}
        self.history: list[PodState] = []
        self.recovered: list[RecoveredPod] = []
        runtime.listen(self._listen)

    def _listen(self, state: PodState) -> None:
        self.states[state.uid] = state
        self.history.append(state)

    def state(self, pod: Pod) -> PodState:
        return self.states.get(pod.metadata.uid, PodState(pod.metadata.uid))

    async def running(self, pod: Pod) -> PodState:
        await until(lambda: self.state(pod).ended or self.state(pod).containers)
        assert not self.state(pod).ended, self.state(pod)
        return self.state(pod)

    async def ended(self, pod: Pod) -> PodState:
        await until(lambda: self.state(pod).ended)
        return self.state(pod)

    async def output(self, pod: Pod, *, tail: int | None = None, follow: bool = False) -> bytes:
        uid = pod.metadata.uid
        pieces = self.runtime.logs(uid, "", tail_lines=tail, follow=follow)
        return b"".join([piece async for piece in pieces])


@contextlib.asynccontextmanager
async def hosting(state_dir: Path) -> AsyncIterator[Host]:
    """A runtime on a folder, until the block ends; its pods stay."""
    host = Host(ProcessRuntime(state_dir, os.environ))
    host.recovered = await host.runtime.recover()
    task = asyncio.create_task(host.runtime.run())
    try:
        yield host
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with hosting(tmp_path / "state") as made:
        yield made
        for uid in list(made.states):
            made.runtime.stop(uid, 0)
        await until(lambda: all(state.ended for state in made.states.values()))


async def test_exit_codes_times_and_output_are_kept(host: Host) -> None:
    pod = make_pod(shell("echo out; echo err >&2; exit 3"))
    host.runtime.start(pod)
    (container,) = (await host.ended(pod)).containers
    assert (container.exit_code, container.signal) == (3, 0)
    assert container.finish_time is not None
    assert container.start_time <= container.finish_time
    assert await host.output(pod) == b"out\nerr\n"


async def test_a_pod_is_seen_running_before_it_ends(host: Host) -> None:
    pod = make_pod(shell("exec sleep 60"))
    host.runtime.start(pod)
    (container,) = (await host.running(pod)).containers
    assert program_of(container.runtime_id) == [b"sleep", b"60"]


async def test_output_is_kept_byte_by_byte(host: Host) -> None:
    pod = make_pod(shell(r"printf '\000\377\200\ntail'"))
    host.runtime.start(pod)
    await host.ended(pod)
    assert await host.output(pod) == b"\x00\xff\x80\ntail"


async def test_the_program_sees_its_environment_and_no_other(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = make_pod(["/usr/bin/env"])
    pod.spec.containers[0].env.add(name="GREETING", value="a b=c")
    pod.spec.containers[0].env.add(name="DRUMLINE_POD_UID", value="forged")
    host.runtime.start(pod)
    await host.ended(pod)
    seen = dict(line.split("=", 1) for line in (await host.output(pod)).decode().splitlines())
    assert set(seen) - {"PATH", "LANG", "TZ"} == {
        "GREETING",
        "DRUMLINE_POD_UID",
        "DRUMLINE_POD_NAME",
        "DRUMLINE_POD_NAMESPACE",
        "DRUMLINE_NODE_NAME",
        "DRUMLINE_CONTAINER",
    }
    assert seen["GREETING"] == "a b=c"
    assert seen["DRUMLINE_POD_UID"] == pod.metadata.uid


async def test_the_program_starts_with_the_signals_of_a_fresh_process(host: Host) -> None:
    pod = make_pod(shell("grep -E 'Sig(Blk|Ign)' /proc/self/status"))
    host.runtime.start(pod)
    await host.ended(pod)
    masks = [int(line.split()[1], 16) for line in (await host.output(pod)).decode().splitlines()]
    # Numbers 32 and 33 are the C library's own, and pass through it unseen.
    assert [mask & ~(3 << 31) for mask in masks] == [0, 0]


async def test_it_runs_in_its_working_directory_or_one_of_its_own(
    host: Host, tmp_path: Path
) -> None:
    given, own = make_pod(["pwd"]), make_pod(["pwd"])
    given.spec.containers[0].working_dir = str(tmp_path)
    for pod in (given, own):
        host.runtime.start(pod)
        await host.ended(pod)
    assert await host.output(given) == f"{tmp_path}\n".encode()
    assert (await host.output(own)).endswith(f"{own.metadata.uid}/work\n".encode())


@pytest.mark.parametrize(
    ("command", "directory", "problem"),
    [
        (["/no/such/program"], "", "cannot run /no/such/program: No such file or directory"),
        (["/etc/passwd"], "", "cannot run /etc/passwd: Permission denied"),
        (["true"], "/no/such", "cannot change to the directory /no/such: No such file"),
        (["a\0b"], "", "NUL"),
    ],
)
async def test_what_cannot_be_started_says_why(
    host: Host, command: list[str], directory: str, problem: str
) -> None:
    pod = make_pod(command)
    pod.spec.containers[0].working_dir = directory
    host.runtime.start(pod)
    state = await host.ended(pod)
    assert problem in state.start_problem
    assert state.containers == ()


async def test_a_container_that_cannot_start_takes_the_others_with_it(host: Host) -> None:
    pod = make_pod(shell("exec sleep 999"), ["/no/such/program"])
    host.runtime.start(pod)
    state = await host.ended(pod)
    assert "container c1: cannot run /no/such/program" in state.start_problem
    assert [c.signal for c in state.containers] == [signal.SIGTERM]
    assert not processes_of(pod)


async def test_term_ends_a_pod_that_obeys_within_its_grace(host: Host) -> None:
    pod = make_pod(shell("trap 'echo bye; exit 7' TERM; sleep 999 & wait"), grace=30)
    host.runtime.start(pod)
    await host.running(pod)
    host.runtime.stop(pod.metadata.uid, 30)
    state = await host.ended(pod)
    assert [c.exit_code for c in state.containers] == [7]
    assert await host.output(pod) == b"bye\n"
    assert not processes_of(pod)


ESCAPES = {
    "ignores TERM": "trap '' TERM; sleep 999 & echo $! > {pid}; wait",
    "double fork": "trap '' TERM; (sleep 999 & echo $! > {pid}) & wait; sleep 999",
    "setsid": "trap '' TERM; setsid sh -c 'echo $$ > {pid}; exec sleep 999' & wait; sleep 999",
    "clean environment": "trap '' TERM; env -i setsid sh -c 'echo $$ > {pid}; exec sleep 999' & "
    "wait; sleep 999",
}


@pytest.mark.parametrize("script", ESCAPES.values(), ids=ESCAPES.keys())
async def test_field_report_33_no_survivor_at_the_end_of_grace(
    host: Host, tmp_path: Path, script: str
) -> None:
    note = tmp_path / "pid"
    pod = make_pod(shell(script.format(pid=note)))
    host.runtime.start(pod)
    await until(lambda: pid_in(note))
    child = pid_in(note)
    assert child is not None
    host.runtime.stop(pod.metadata.uid, 0.3)
    state = await host.ended(pod)
    assert not alive(child)
    assert not processes_of(pod)
    assert state.killed >= 2
    assert [c.signal for c in state.containers] == [signal.SIGKILL]


@pytest.mark.parametrize("script", ESCAPES.values(), ids=ESCAPES.keys())
async def test_a_container_that_ends_leaves_nothing_behind(
    host: Host, tmp_path: Path, script: str
) -> None:
    note = tmp_path / "pid"
    leaving = script.format(pid=note).replace("wait; sleep 999", "exit 4").replace("wait", "exit 4")
    pod = make_pod(shell(leaving.replace("exit 4", f"while ! test -s {note}; do :; done; exit 4")))
    host.runtime.start(pod)
    state = await host.ended(pod)
    child = pid_in(note)
    assert child is not None
    assert not alive(child)
    assert [c.exit_code for c in state.containers] == [4]


async def test_an_orphan_of_a_running_container_is_left_alone(host: Host, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    daemon = shell(f"(setsid sleep 999 & echo $! > {note}); exec sleep 999")
    pod = make_pod(daemon, shell(f"while ! test -s {note}; do :; done"))
    host.runtime.start(pod)
    await until(lambda: any(c.finish_time for c in host.state(pod).containers))
    child = pid_in(note)
    assert child is not None
    assert alive(child)
    host.runtime.stop(pod.metadata.uid, 5)
    await host.ended(pod)
    assert not alive(child)


async def test_field_report_34_grace_is_neither_restarted_nor_extended(host: Host) -> None:
    pod = make_pod(shell("trap '' TERM; while :; do sleep 1; done"))
    host.runtime.start(pod)
    await host.running(pod)
    host.runtime.stop(pod.metadata.uid, 0.5)
    stop = host.runtime._pods[pod.metadata.uid].folder.path / "stop"
    await until(stop.exists)
    deadline = stop.read_text()
    for _ in range(5):
        host.runtime.stop(pod.metadata.uid, 3600)
        await asyncio.sleep(0)
    await host.ended(pod)
    assert stop.read_text() == deadline


async def test_a_later_request_can_shorten_the_grace(host: Host) -> None:
    pod = make_pod(shell("trap '' TERM; while :; do sleep 1; done"))
    host.runtime.start(pod)
    await host.running(pod)
    host.runtime.stop(pod.metadata.uid, 3600)
    host.runtime.stop(pod.metadata.uid, 0)
    await host.ended(pod)


async def test_a_stop_while_it_starts_is_not_lost(host: Host) -> None:
    pod = make_pod(shell("exec sleep 999"))
    host.runtime.start(pod)
    host.runtime.stop(pod.metadata.uid, 5)
    await host.ended(pod)
    assert not processes_of(pod)


async def test_what_dies_with_its_supervisor_is_reported(host: Host, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    pod = make_pod(shell(f"setsid sleep 999 & echo $! > {note}; exec sleep 999"))
    host.runtime.start(pod)
    await host.running(pod)
    await until(lambda: pid_in(note))
    folder = host.runtime._pods[pod.metadata.uid].folder
    supervisor = json.loads((folder.path / "state.json").read_bytes())["pid"]
    os.kill(supervisor, signal.SIGKILL)
    state = await host.ended(pod)
    assert "supervisor process was killed" in state.loss
    assert not processes_of(pod)


async def test_a_pod_survives_the_kubelet_and_is_found_again(tmp_path: Path) -> None:
    running, finished = make_pod(shell("exec sleep 999")), make_pod(shell("exit 5"))
    finishing = make_pod(shell(f"while ! test -e {tmp_path}/go; do sleep 0.05; done; exit 6"))
    async with hosting(tmp_path / "state") as host:
        for pod in (running, finished, finishing):
            host.runtime.start(pod)
        before = [await host.running(running), await host.ended(finished)]
        await host.running(finishing)
    (tmp_path / "go").touch()
    await until(lambda: not processes_of(finishing))
    async with hosting(tmp_path / "state") as host:
        found = {r.uid: r for r in host.recovered}
        assert [found[p.metadata.uid].state for p in (running, finished)] == before
        assert found[running.metadata.uid].pod == running
        ended = found[finishing.metadata.uid].state
        assert ended is not None
        assert [c.exit_code for c in ended.containers] == [6]
        host.runtime.stop(running.metadata.uid, 5)
        await host.ended(running)
    assert not processes_of(running)


async def test_field_report_31_a_start_whose_outcome_was_not_seen_is_not_done_twice(
    tmp_path: Path,
) -> None:
    pod = make_pod(shell("echo once; exec sleep 999"))
    async with hosting(tmp_path / "state") as host:
        host.runtime.start(pod)
        before = await host.running(pod)
        state = host.runtime._pods[pod.metadata.uid].folder.path / "state.json"
    # The next kubelet looks before the supervisor has written anything …
    hidden = state.rename(state.with_name("hidden"))
    async with hosting(tmp_path / "state") as host:
        assert [r.state for r in host.recovered] == [None]
        hidden.rename(state)
        # … and starts the pod, of which there is one by now.
        host.runtime.start(pod)
        assert await host.running(pod) == before
        assert len(processes_of(pod)) == 1
        assert await host.output(pod) == b"once\n"
        host.runtime.stop(pod.metadata.uid, 5)
        await host.ended(pod)
    assert not processes_of(pod)


async def test_a_reboot_ends_what_ran(tmp_path: Path) -> None:
    pod = make_pod(shell("exec sleep 999"))
    async with hosting(tmp_path / "state") as host:
        host.runtime.start(pod)
        await host.running(pod)
        host.runtime.stop(pod.metadata.uid, 5)
        folder = host.runtime._pods[pod.metadata.uid].folder
        running = (folder.path / "state.json").read_bytes()
        await host.ended(pod)
    state = json.loads(running) | {"boot_id": "another"}
    (folder.path / "state.json").write_text(json.dumps(state))
    async with hosting(tmp_path / "state") as host:
        (found,) = host.recovered
        assert found.state is not None
        assert found.state.ended
        assert "the machine was started again" in found.state.loss


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"uid": "other"}', b"\xff\xfe"])
async def test_a_corrupt_state_file_ends_the_pod_and_nothing_else(
    tmp_path: Path, content: bytes
) -> None:
    pod, other = make_pod(shell("exec sleep 999")), make_pod(shell("exit 0"))
    async with hosting(tmp_path / "state") as host:
        for started in (pod, other):
            host.runtime.start(started)
        await host.running(pod)
        await host.ended(other)
        path = host.runtime._pods[pod.metadata.uid].folder.path
    (path / "state.json").write_bytes(content)
    (path / "pod.pb").write_bytes(b"\xff")
    async with hosting(tmp_path / "state") as host:
        found = {r.uid: r for r in host.recovered}
        assert found[pod.metadata.uid].pod is None
        state = found[pod.metadata.uid].state
        assert state is not None
        assert state.ended
        assert "state.json cannot be read" in state.loss
        healthy = found[other.metadata.uid].state
        assert healthy is not None
        assert not healthy.loss
    assert not processes_of(pod)


async def test_two_kubelets_do_not_share_a_folder(host: Host, tmp_path: Path) -> None:
    second = ProcessRuntime(tmp_path / "state", os.environ)
    with pytest.raises(OSError, match="another kubelet uses the state folder"):
        await second.recover()


async def test_the_last_lines_of_output(host: Host) -> None:
    pod = make_pod(shell("seq 1 30000; printf end"))
    host.runtime.start(pod)
    await host.ended(pod)
    whole = await host.output(pod)
    assert whole == b"".join(b"%d\n" % n for n in range(1, 30001)) + b"end"
    assert await host.output(pod, tail=0) == b""
    assert await host.output(pod, tail=1) == b"end"
    assert await host.output(pod, tail=3) == b"29999\n30000\nend"
    assert await host.output(pod, tail=20000) == whole[whole.index(b"10002\n") :]
    assert await host.output(pod, tail=99999) == whole


async def test_output_is_followed_to_the_end(host: Host, tmp_path: Path) -> None:
    pod = make_pod(shell(f"echo first; while ! test -e {tmp_path}/go; do sleep 0.02; done; echo x"))
    host.runtime.start(pod)
    pieces = host.runtime.logs(pod.metadata.uid, "c0", tail_lines=None, follow=True)
    assert await anext(pieces) == b"first\n"
    (tmp_path / "go").touch()
    assert [piece async for piece in pieces] == [b"x\n"]


async def test_output_of_what_is_not_there(host: Host) -> None:
    with pytest.raises(NotFoundError):
        await host.output(make_pod(["true"]))
    pod = make_pod(["true"], ["true"])
    host.runtime.start(pod)
    await host.ended(pod)
    with pytest.raises(InvalidArgumentError, match="c0, c1"):
        await host.output(pod)


async def test_a_removed_pod_leaves_no_file(host: Host, tmp_path: Path) -> None:
    pod = make_pod(["true"])
    host.runtime.start(pod)
    await host.ended(pod)
    host.runtime.remove(pod.metadata.uid)
    await until(lambda: not list((tmp_path / "state" / "pods").iterdir()))
    del host.states[pod.metadata.uid]
