"""Runs pods as processes of the host, each pod under a supervisor of its own.

What a pod is stands in its supervisor's ``state.json``; the kubelet reads it when
the supervisor says that it changed, when the supervisor ends, and now and then in
case a message was lost. All work on files happens in threads.
"""

import asyncio
import contextlib
import fcntl
import os
import py_compile
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from drumline.api.v1.pod_pb2 import Pod
from drumline.kubelet import leftovers, log_files, supervisor
from drumline.kubelet.pod_files import (
    CHANGES,
    MARK_UID,
    CorruptFileError,
    PodFolder,
    SupervisorState,
    folders,
    is_uid,
)
from drumline.kubelet.runtime import Listener, PodState, RecoveredPod, choose_container
from drumline.model.errors import NotFoundError
from drumline.model.fit import names_image
from drumline.process import logs

_log = logs.get(__name__)

T = TypeVar("T")

# So many pods are started at once; the others wait for a free thread.
_THREADS = 8
_LOOK_AGAIN_SECONDS = 30.0
# A supervisor that has not ended its pod so long after the grace is killed.
_OVERDUE_SECONDS = 5.0
# What the interpreter itself may need to start.
_SUPERVISOR_NEEDS = ("PATH", "LD_LIBRARY_PATH")
_BLOCKED = (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP)


@dataclass(slots=True)
class _Entry:
    """What the kubelet holds of one pod; only touched in the event loop's thread."""

    folder: PodFolder
    containers: tuple[str, ...]
    state: PodState | None = None
    pidfd: int = -1
    supervisor_ended: bool = False
    deadline: float | None = None
    overdue: asyncio.TimerHandle | None = None
    changed: bool = False
    looking: bool = False


class ProcessRuntime:
    """The process runtime; `state_dir` is this kubelet's alone."""

    name = "process"

    def __init__(self, state_dir: Path, environ: Mapping[str, str]) -> None:
        self._state_dir = state_dir
        self._environ = dict(environ)
        self._program = state_dir / "supervisor.pyc"
        self._pods: dict[str, _Entry] = {}
        self._listener: Listener = lambda _: None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="pods")
        self._background: set[asyncio.Task[None]] = set()
        self._spawning = threading.Lock()
        self._fifo = -1
        self._lock = -1

    def listen(self, listener: Listener) -> None:
        """Say who is told of changes."""
        self._listener = listener

    async def recover(self) -> list[RecoveredPod]:
        """Take hold of the state folder and of the pods in it. Raises OSError."""
        found = await self._in_thread(self._open)
        asyncio.get_running_loop().add_reader(self._fifo, self._told)
        recovered = []
        for folder in found:
            pod = await self._in_thread(self._read_pod, folder)
            names = tuple(c.name for c in pod.spec.containers) if pod else ()
            entry = self._pods[folder.uid] = _Entry(folder, names)
            seen = await self._in_thread(self._recover, folder)
            entry.state = seen.state
            if seen.pidfd >= 0:
                entry.pidfd = seen.pidfd
                self._watch(entry)
            recovered.append(RecoveredPod(folder.uid, pod, entry.state))
        return recovered

    async def run(self) -> None:
        """Follow the supervisors until cancelled; the pods stay."""
        try:
            while True:
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
                for entry in self._pods.values():
                    if entry.pidfd >= 0:
                        self._mark(entry)
        finally:
            await self._close()

    def refusal(self, pod: Pod) -> str:
        """Say why no process can be made of the pod."""
        if not is_uid(pod.metadata.uid):
            return "the pod's uid is not one that this node can use"
        if names_image(pod.spec):
            return "this node runs processes of the host and cannot run images"
        return ""

    def start(self, pod: Pod) -> None:
        """Start the pod's supervisor."""
        uid = pod.metadata.uid
        entry = self._pods.get(uid)
        if entry is None:
            names = tuple(c.name for c in pod.spec.containers)
            entry = self._pods[uid] = _Entry(PodFolder(self._state_dir, uid), names)
        self._do(self._start(entry, pod))

    def adopt(self, pod: Pod) -> PodState | None:  # noqa: ARG002 - nothing can be adopted
        """A process of which nothing was kept cannot be found again."""
        return None

    def stop(self, uid: str, grace: float) -> None:
        """Ask the supervisor to end the pod."""
        entry = self._pods.get(uid)
        if entry is None or (entry.state and entry.state.ended):
            return
        deadline = time.clock_gettime(time.CLOCK_BOOTTIME) + grace
        entry.deadline = min(deadline, entry.deadline or deadline)
        if entry.pidfd >= 0:
            self._do(self._ask_to_stop(entry))

    def remove(self, uid: str) -> None:
        """Delete the pod's files."""
        entry = self._pods.pop(uid, None)
        if entry is not None:
            self._do(self._in_thread(entry.folder.remove))

    async def logs(
        self, uid: str, container: str, *, tail_lines: int | None, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        """Read the container's log file."""
        entry = self._pods.get(uid)
        if entry is None:
            raise NotFoundError("the node has nothing of this pod", reason="POD_NOT_FOUND")
        name = choose_container(entry.containers, container)

        def ended() -> bool:
            now = self._pods.get(uid)
            if now is None or now.state is None:
                return now is None
            states = [c for c in now.state.containers if c.name == name]
            return now.state.ended or bool(states and states[0].finish_time is not None)

        pieces = log_files.read(
            entry.folder.log(name), tail_lines=tail_lines, follow=follow, ended=ended
        )
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                yield piece

    # What follows runs in the event loop's thread.

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="pod-files")
        self._background.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("pod_files_fault", exc_info=error)

    async def _start(self, entry: _Entry, pod: Pod) -> None:
        try:
            entry.pidfd = await self._in_thread(self._launch, entry.folder, pod)
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else str(error)
            self._tell(entry, PodState(entry.folder.uid, ended=True, start_problem=str(problem)))
            return
        self._watch(entry)
        if entry.deadline is not None:
            await self._ask_to_stop(entry)

    def _watch(self, entry: _Entry) -> None:
        asyncio.get_running_loop().add_reader(entry.pidfd, self._supervisor_ended, entry)
        self._mark(entry)

    def _supervisor_ended(self, entry: _Entry) -> None:
        asyncio.get_running_loop().remove_reader(entry.pidfd)
        # A supervisor of an earlier kubelet is not this one's child.
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, entry.pidfd, os.WEXITED | os.WNOHANG)
        os.close(entry.pidfd)
        entry.pidfd = -1
        entry.supervisor_ended = True
        if entry.overdue is not None:
            entry.overdue.cancel()
        self._mark(entry)

    def _told(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for uid in os.read(self._fifo, 1 << 16).decode(errors="replace").split("\n"):
                if uid in self._pods:
                    self._mark(self._pods[uid])

    def _mark(self, entry: _Entry) -> None:
        entry.changed = True
        if not entry.looking:
            entry.looking = True
            self._do(self._look(entry))

    async def _look(self, entry: _Entry) -> None:
        try:
            while entry.changed and self._pods.get(entry.folder.uid) is entry:
                entry.changed = False
                found = await self._in_thread(self._read, entry.folder, entry.supervisor_ended)
                if entry.supervisor_ended and found.pidfd >= 0:
                    # An earlier kubelet's supervisor had the pod already.
                    entry.supervisor_ended = False
                    entry.pidfd = found.pidfd
                    self._watch(entry)
                    if entry.deadline is not None:
                        await self._ask_to_stop(entry)
                if found.state is not None:
                    self._tell(entry, found.state)
        finally:
            entry.looking = False

    def _tell(self, entry: _Entry, state: PodState) -> None:
        if state != entry.state and not (entry.state and entry.state.ended):
            entry.state = state
            self._listener(state)

    async def _ask_to_stop(self, entry: _Entry) -> None:
        deadline = entry.deadline
        assert deadline is not None
        try:
            await self._in_thread(entry.folder.write_deadline, deadline)
        except OSError as error:
            _log.error("stop_not_written", pod_uid=entry.folder.uid, error=str(error))
        if entry.pidfd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(entry.pidfd, signal.SIGTERM)
        if entry.overdue is not None:
            entry.overdue.cancel()
        left = deadline - time.clock_gettime(time.CLOCK_BOOTTIME) + _OVERDUE_SECONDS
        entry.overdue = asyncio.get_running_loop().call_later(left, self._end_supervisor, entry)

    def _end_supervisor(self, entry: _Entry) -> None:
        if entry.pidfd >= 0:
            _log.error("supervisor_overdue", pod_uid=entry.folder.uid)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(entry.pidfd, signal.SIGKILL)

    async def _close(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*self._background, return_exceptions=True)
        for entry in self._pods.values():
            if entry.overdue is not None:
                entry.overdue.cancel()
            if entry.pidfd >= 0:
                loop.remove_reader(entry.pidfd)
                os.close(entry.pidfd)
                entry.pidfd = -1
        loop.remove_reader(self._fifo)
        os.close(self._fifo)
        os.close(self._lock)
        self._threads.shutdown(wait=False)

    # What follows blocks, and runs in threads.

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, work, *arguments)

    def _open(self) -> list[PodFolder]:
        self._state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self._state_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"another kubelet uses the state folder {self._state_dir}") from None
        py_compile.compile(supervisor.__file__, cfile=str(self._program), doraise=True)
        fifo = self._state_dir / CHANGES
        with contextlib.suppress(FileExistsError):
            os.mkfifo(fifo, 0o600)
        # For reading and writing, so that it never ends when no supervisor has it open.
        self._fifo = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        return folders(self._state_dir)

    def _launch(self, folder: PodFolder, pod: Pod) -> int:
        """Start a supervisor; give its pidfd. Raises OSError, ValueError."""
        folder.prepare(pod, self._environ)
        complaints = str(folder.path / "supervisor.log")
        # The interpreter is not let go while a process is made: one thread at a time
        # makes one, so that heartbeats get their turn between two.
        with self._spawning:
            pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-X", "utf8", str(self._program), str(folder.path)],
                {
                    MARK_UID: folder.uid,
                    **{n: self._environ[n] for n in _SUPERVISOR_NEEDS if n in self._environ},
                },
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (
                        os.POSIX_SPAWN_OPEN,
                        1,
                        complaints,
                        os.O_WRONLY | os.O_CREAT | os.O_APPEND,
                        0o600,
                    ),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
                # Blocked from its first instruction: a request to stop waits for it.
                setsigmask=_BLOCKED,
            )
        return os.pidfd_open(pid)

    def _read_pod(self, folder: PodFolder) -> Pod | None:
        try:
            return folder.read_pod()
        except CorruptFileError as error:
            _log.error("pod_file_corrupt", pod_uid=folder.uid, error=str(error))
            return None

    def _recover(self, folder: PodFolder) -> "_Found":
        """Find out what became of a pod while no kubelet was there."""
        with contextlib.suppress(CorruptFileError):
            if folder.read_state() is None:
                return _Found(None)
        return self._read(folder, True)

    def _read(self, folder: PodFolder, supervisor_ended: bool) -> "_Found":
        """Read what the pod is; when its supervisor has ended, find out what that means."""
        try:
            state = folder.read_state()
            if not supervisor_ended or (state is not None and state.pod.ended):
                return _Found(state.pod if state else None)
            if state is None:
                problem = f"its supervisor ended at once: {folder.last_complaint()}"
                return _Found(PodState(folder.uid, ended=True, start_problem=problem))
            pidfd = _hold(state)
            if pidfd >= 0:
                return _Found(state.pod, pidfd)
            # It may have written its last word in between.
            state = folder.read_state() or state
            return _Found(state.pod if state.pod.ended else _lost(folder, state))
        except CorruptFileError as error:
            _log.error("pod_file_corrupt", pod_uid=folder.uid, error=str(error))
            leftovers.kill(folder.uid, {})
            return _Found(PodState(folder.uid, ended=True, loss=str(error)))


@dataclass(frozen=True, slots=True)
class _Found:
    """What a look at the files gave: the state, and the supervisor where it was looked for."""

    state: PodState | None
    pidfd: int = -1


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _hold(state: SupervisorState) -> int:
    """Open the supervisor's pidfd; -1 when it does not live."""
    if state.boot_id != _boot_id():
        return -1
    try:
        pidfd = os.pidfd_open(state.pid)
    except ProcessLookupError:
        return -1
    # Looked at while it is held: the number cannot pass to another process now.
    if supervisor.start_ticks(state.pid) == state.leaders[state.pid] and not _is_zombie(state.pid):
        return pidfd
    os.close(pidfd)
    return -1


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in {b"Z", b"X"}
    except OSError:
        return True


def _lost(folder: PodFolder, state: SupervisorState) -> PodState:
    """End what a dead supervisor left, and say that its end is not known."""
    if state.boot_id != _boot_id():
        loss = "the machine was started again while the pod ran"
    else:
        killed = leftovers.kill(folder.uid, state.leaders)
        complaint = folder.last_complaint()
        loss = "the pod's supervisor process was killed" + (f" ({complaint})" if complaint else "")
        loss += f"; {killed} processes that it left were killed" if killed else ""
    return replace(state.pod, ended=True, loss=loss)
