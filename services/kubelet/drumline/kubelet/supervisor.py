"""Keeps the processes of one pod, apart from the kubelet: ``python -I -S supervisor.py POD_DIR``.

The kubelet may be killed and come back; this process stays, and with it the pod.
It stands alone: only the standard library, and of that only what imports fast,
because one of these starts with every pod.

In POD_DIR it finds ``spec``: NUL-separated pairs of a key and a value, as
`drumline.kubelet.pod_files` writes them. It keeps ``state.json`` there, replaced
whole at each change, and then writes the pod's uid into the FIFO that ``spec``
names, so that a kubelet that lives looks at once.

* It starts each container once, in a process group of its own. Making
  ``state.json`` is the claim: where one exists, nothing is started.
* It adopts orphans (child subreaper), so that no descendant escapes by a double
  fork or by setsid, and it ends only when it has no child left.
* When a container's first process ends, what it left behind is killed.
* SIGTERM asks it to stop the pod: TERM to each container's group, and KILL to
  every descendant at the deadline in ``stop`` (CLOCK_BOOTTIME, seconds). A later
  request can only bring the deadline forward.
* When it is killed itself, the kernel kills each container's first process.
"""

import os
import sys
import time
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator
else:
    # `signal` wraps these in enumerations, which takes longer to import than
    # everything else here together.
    try:
        import _signal as signal
    except ImportError:
        import signal

STATE = "state.json"
SPEC = "spec"
STOP = "stop"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_HANDLED = (signal.SIGTERM, signal.SIGCHLD)
_FIRST_PAUSE = 0.005
_LAST_PAUSE = 1.0
# How often the end is tried to be written, a pause apart, before it is given up.
_LAST_TRIES = 600


def _find_prctl() -> "Callable[[int, int], int]":
    try:
        import _ctypes

        address = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        call = _ctypes.call_function
    except (ImportError, AttributeError):
        import ctypes

        return ctypes.CDLL(None, use_errno=True).prctl
    return lambda option, value: int(call(address, (option, value, 0, 0, 0)))


def encode(value: object) -> str:
    """Give JSON of None, booleans, numbers, strings, lists and dictionaries of these."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return "[" + ",".join(map(encode, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode(k)}:{encode(v)}" for k, v in value.items()) + "}"
    return '"' + "".join(map(_escaped, str(value))) + '"'


def _escaped(character: str) -> str:
    if " " <= character < "\x7f" and character not in '"\\':
        return character
    number = ord(character)
    if number < 0x10000:
        return f"\\u{number:04x}"
    number -= 0x10000
    return f"\\u{0xD800 | number >> 10:04x}\\u{0xDC00 | number & 0x3FF:04x}"


def start_ticks(pid: int) -> int:
    """Give when the process started, in clock ticks since boot; 0 when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib imports slowly
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return 0


def _processes() -> "Iterator[tuple[int, int, int, int]]":
    """Give pid, parent, process group and session of every process that is no zombie."""
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields and fields[0] not in b"ZX":
                yield int(name), int(fields[1]), int(fields[2]), int(fields[3])


class Container:
    """One container: what to run, and what became of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log = ""
        self.directory = ""
        self.argv: list[str] = []
        self.env: dict[str, str] = {}
        self.pid = 0
        self.start_ticks = 0
        self.start_time: float | None = None
        self.finish_time: float | None = None
        self.exit_code: int | None = None
        self.signal = 0
        self.ended = False

    def state(self) -> dict[str, object]:
        """Give what ``state.json`` says of it."""
        return {
            "name": self.name,
            "pid": self.pid,
            "start_ticks": self.start_ticks,
            "start_time": self.start_time,
            "finish_time": self.finish_time if self.ended else None,
            "exit_code": self.exit_code if self.ended else None,
            "signal": self.signal if self.ended else 0,
            "ended": self.ended,
        }


class Supervisor:
    """The pod: its containers, and how far it has come."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.uid = ""
        self.notify = ""
        self.grace = 0.0
        self.containers: list[Container] = []
        self.error = ""
        self.deadline: float | None = None
        self.killed: set[int] = set()
        self.unsaved = False
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            self.boot_id = file.read().strip()
        self.prctl = _find_prctl()
        self.pause = _FIRST_PAUSE

    def read_spec(self) -> None:
        """Read what to run."""
        with open(SPEC, "rb") as file:  # noqa: PTH123
            tokens = [os.fsdecode(token) for token in file.read().split(b"\0")]
        for key, value in zip(tokens[0::2], tokens[1::2], strict=False):
            if key == "uid":
                self.uid = value
            elif key == "notify":
                self.notify = value
            elif key == "grace":
                self.grace = float(value)
            elif key == "container":
                self.containers.append(Container(value))
            elif key == "log":
                self.containers[-1].log = value
            elif key == "directory":
                self.containers[-1].directory = value
            elif key == "argument":
                self.containers[-1].argv.append(value)
            elif key == "environment":
                name, _, text = value.partition("=")
                self.containers[-1].env[name] = text

    def claim(self) -> None:
        """Make the first ``state.json``. Raises FileExistsError when the pod was started before."""
        temporary = self.write_temporary(done=False)
        try:
            os.link(temporary, STATE)
        finally:
            os.unlink(temporary)  # noqa: PTH108

    def save(self, *, done: bool = False) -> None:
        """Replace ``state.json`` and tell the kubelet; a full disk ends no pod."""
        try:
            os.rename(self.write_temporary(done=done), STATE)  # noqa: PTH104
        except OSError as error:
            print(f"cannot write {STATE}: {error}", file=sys.stderr)
            self.unsaved = True
            return
        self.unsaved = False
        self.tell()

    def write_temporary(self, *, done: bool) -> str:
        """Write the state beside its place; give the file's name."""
        state = {
            "uid": self.uid,
            "boot_id": self.boot_id,
            "pid": self.pid,
            "start_ticks": start_ticks(self.pid),
            "error": self.error,
            "killed": len(self.killed),
            "done": done,
            "containers": [c.state() for c in self.containers if c.pid],
        }
        temporary = f"{STATE}.{self.pid}"
        with open(temporary, "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(encode(state))
        return temporary

    def tell(self) -> None:
        """Say that something changed; a kubelet that is not there will look when it comes."""
        try:
            fifo = os.open(self.notify, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return
        try:
            os.write(fifo, self.uid.encode() + b"\n")
        except OSError:
            pass
        finally:
            os.close(fifo)

    def start(self, container: Container) -> str:
        """Start a container; give what went wrong, or nothing. Returns once it runs its program."""
        try:
            receiving, sending = os.pipe()
            pid = os.fork()
        except OSError as error:
            return f"cannot make a process: {error.strerror}"
        if pid == 0:
            self.become(container, sending)
        os.close(sending)
        problem = b""
        while piece := os.read(receiving, 4096):
            problem += piece
        os.close(receiving)
        if problem:
            os.waitpid(pid, 0)
            return os.fsdecode(problem)
        container.pid = pid
        container.start_ticks = start_ticks(pid)
        container.start_time = time.time()  # noqa: TID251 - stands alone
        return ""

    def become(self, container: Container, sending: int) -> NoReturn:
        """Turn this new child into the container's first process."""
        doing = "cannot prepare the process"
        try:
            os.setpgid(0, 0)
            if self.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0 or os.getppid() != self.pid:
                os._exit(127)
            log = os.open(container.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            doing = f"cannot change to the directory {container.directory}"
            os.chdir(container.directory)
            # Python ignores these two; a program expects them to end it.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            doing = f"cannot run {container.argv[0]}"
            os.execvpe(container.argv[0], container.argv, container.env)  # noqa: S606
        except OSError as error:
            os.write(sending, os.fsencode(f"{doing}: {error.strerror}"))
        except BaseException as error:
            os.write(sending, os.fsencode(f"{doing}: {error}"))
        os._exit(127)

    def ask_to_stop(self, deadline: float) -> None:
        """Send TERM, once; from `deadline` on everything is killed. Never later than before."""
        if self.deadline is None:
            self.deadline = deadline
            for container in self.containers:
                if container.pid and container.finish_time is None:
                    _send(os.killpg, container.pid, signal.SIGTERM)
        self.deadline = min(self.deadline, deadline)

    def requested_deadline(self) -> float:
        """Read when the request to stop ends; without one, after the pod's own grace."""
        try:
            with open(STOP, encoding="ascii") as file:  # noqa: PTH123
                return float(file.read())
        except (OSError, ValueError):
            return time.clock_gettime(time.CLOCK_BOOTTIME) + self.grace

    def reap(self) -> bool:
        """Take in every child that has ended; say whether any is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            for container in self.containers:
                if container.pid == pid and container.finish_time is None:
                    container.finish_time = time.time()  # noqa: TID251
                    if os.WIFSIGNALED(status):
                        container.signal = os.WTERMSIG(status)
                    else:
                        container.exit_code = os.WEXITSTATUS(status)

    def descendants(self) -> dict[int, tuple[int, int, int]]:
        """Give every descendant's parent, process group and session, by pid."""
        everyone = {pid: (parent, group, session) for pid, parent, group, session in _processes()}
        found: dict[int, tuple[int, int, int]] = {}
        parents = {self.pid}
        while parents:
            generation = {p: v for p, v in everyone.items() if v[0] in parents and p not in found}
            found |= generation
            parents = set(generation)
        return found

    def strays(self, container: Container) -> list[int]:
        """Give what an ended container left behind."""
        tree = self.descendants()
        running = {c.pid for c in self.containers if c.pid and c.finish_time is None}
        if not running:
            return list(tree)
        mark = f"DRUMLINE_CONTAINER={container.name}".encode()
        return [
            pid
            for pid, (_, group, session) in tree.items()
            if not _is_below(pid, running, tree)
            and (container.pid in {group, session} or mark in _environment(pid))
        ]

    def settle(self) -> bool:
        """Kill what must not live; say whether something of it still has to die."""
        left = self.reap()
        if left and self.deadline is not None and self.seconds_left() <= 0:
            for pid in self.descendants():
                self.killed.add(pid)
                _send(os.kill, pid, signal.SIGKILL)
            return True
        settled = False
        killing = False
        for container in self.containers:
            if container.finish_time is None or container.ended:
                continue
            strays = self.strays(container) if left else []
            for pid in strays:
                _send(os.kill, pid, signal.SIGKILL)
            container.ended = not strays
            settled = settled or container.ended
            killing = killing or bool(strays)
        running = [c for c in self.containers if c.pid and c.finish_time is None]
        if left and not running and not killing:
            # What no container could be told to own dies with the last one.
            for pid in self.descendants():
                _send(os.kill, pid, signal.SIGKILL)
            killing = True
        if (settled and left) or self.unsaved:
            self.save()
        return killing

    def seconds_left(self) -> float:
        """Give the time until everything is killed."""
        assert self.deadline is not None
        return self.deadline - time.clock_gettime(time.CLOCK_BOOTTIME)

    def run(self) -> None:
        """Run the pod to its end."""
        self.start_all()
        while True:
            killing = self.settle()
            if not self.reap() and all(c.ended for c in self.containers if c.pid):
                break
            self.wait(killing=killing)
        for _ in range(_LAST_TRIES):
            self.save(done=True)
            if not self.unsaved:
                break
            time.sleep(_LAST_PAUSE)

    def start_all(self) -> None:
        """Start the containers in their order; at the first that cannot, stop the others."""
        for container in self.containers:
            problem = self.start(container)
            if problem:
                self.error = f"container {container.name}: {problem}"
                self.ask_to_stop(time.clock_gettime(time.CLOCK_BOOTTIME) + self.grace)
                return
            self.save()

    def wait(self, *, killing: bool) -> None:
        """Wait for a child to end, a request to stop, or the time to look again."""
        if killing:
            timeout, self.pause = self.pause, min(self.pause * 2, _LAST_PAUSE)
        else:
            timeout, self.pause = 3600.0, _FIRST_PAUSE
            if self.deadline is not None:
                timeout = max(0.0, self.seconds_left())
            if self.unsaved:
                timeout = min(timeout, _LAST_PAUSE)
        received = signal.sigtimedwait(_HANDLED, timeout)
        if received is not None and received.si_signo == signal.SIGTERM:
            self.ask_to_stop(self.requested_deadline())


def _is_below(pid: int, ancestors: set[int], tree: dict[int, tuple[int, int, int]]) -> bool:
    while pid in tree:
        if pid in ancestors:
            return True
        pid = tree[pid][0]
    return False


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return file.read().split(b"\0")
    except OSError:
        return []


def _send(how: "Callable[[int, int], None]", pid: int, number: int) -> None:
    try:  # noqa: SIM105 - contextlib imports slowly
        how(pid, number)
    except (ProcessLookupError, PermissionError):
        # Gone meanwhile; or it has become another user's, and this try was all.
        pass


def main(pod_dir: str) -> int:
    """Run the pod in `pod_dir`; nothing when it was started before."""
    os.closerange(3, 1 << 20)
    os.chdir(pod_dir)
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_HANDLED, signal.SIGINT, signal.SIGHUP))
    supervisor = Supervisor()
    if supervisor.prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
        print("the kernel does not let this process adopt orphans", file=sys.stderr)
        return 1
    supervisor.read_spec()
    try:
        supervisor.claim()
    except FileExistsError:
        return 0
    supervisor.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
