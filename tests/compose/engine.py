"""A container engine, Compose and a base image, found on this machine or made for the test.

Whatever cannot be had raises `MissingError`, whose sentence says what and why.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PUBLIC_BASE = "python:3.13-slim-trixie"
MADE_BASE = "drumline-test-base:trixie"
_ENGINE_STARTS_WITHIN_SECONDS = 60
_ENGINE_STOPS_WITHIN_SECONDS = 30


class MissingError(Exception):
    """Something that the tests need is not to be had here."""


@dataclass(frozen=True)
class Engine:
    """A running engine: the environment in which `docker` and Compose reach it."""

    environment: Mapping[str, str]
    compose: Sequence[str]

    def run(
        self, *command: str, timeout: float = 600, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command that talks to the engine; its output is kept and part of any error."""
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            words = " ".join(command)
            raise AssertionError(f"{words}: exit status {done.returncode}\n{_tail(done)}")
        return done


def _tail(done: subprocess.CompletedProcess[str]) -> str:
    return "\n".join((done.stdout + done.stderr).splitlines()[-60:])


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Engine]:
    """Give the machine's engine, or one of our own whose state lies in `folder`."""
    if shutil.which("docker") is None:
        raise MissingError("there is no docker command on this machine")
    if _answers({}):
        yield Engine({}, _compose({}))
        return
    if shutil.which("dockerd") is None:
        raise MissingError("no engine answers at docker's default address, and there is no dockerd")
    if os.geteuid() != 0:
        raise MissingError(
            "no engine answers at docker's default address, and only root starts one"
        )
    environment = {"DOCKER_HOST": f"unix://{folder}/engine.sock"}
    log = folder / "dockerd.log"
    with log.open("wb") as output:
        command = [
            "dockerd",
            f"--data-root={folder}/data",
            f"--exec-root={folder}/exec",
            f"--pidfile={folder}/dockerd.pid",
            f"--host={environment['DOCKER_HOST']}",
        ]
        daemon = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        _wait_for_start(daemon, environment, log)
        yield Engine(environment, _compose(environment))
    finally:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(timeout=_ENGINE_STOPS_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _wait_for_start(
    daemon: subprocess.Popen[bytes], environment: Mapping[str, str], log: Path
) -> None:
    deadline = time.monotonic() + _ENGINE_STARTS_WITHIN_SECONDS
    while not _answers(environment):
        if daemon.poll() is not None or time.monotonic() > deadline:
            said = "; ".join(log.read_text(errors="replace").splitlines()[-3:])
            raise MissingError(f"dockerd does not start here: {said}")
        time.sleep(0.2)


def _answers(environment: Mapping[str, str]) -> bool:
    command = ["docker", "info"]
    merged = {**os.environ, **environment}
    return subprocess.run(command, env=merged, capture_output=True, check=False).returncode == 0


def _compose(environment: Mapping[str, str]) -> Sequence[str]:
    for command in (
        ["docker", "compose"],
        [str(Path(sys.executable).parent / "docker-compose")],
        ["docker-compose"],
    ):
        if shutil.which(command[0]) is None:
            continue
        merged = {**os.environ, **environment}
        asked = subprocess.run([*command, "version"], env=merged, capture_output=True, check=False)
        if asked.returncode == 0:
            return command
    raise MissingError("there is no Docker Compose: make test-compose installs one")


def base_image(engine: Engine, folder: Path) -> str:
    """Give the public base image if it can be had, else one made of Debian's packages."""
    for image in (PUBLIC_BASE, MADE_BASE):
        if engine.run("docker", "image", "inspect", image, check=False).returncode == 0:
            return image
    pulled = engine.run("docker", "pull", "--quiet", PUBLIC_BASE, check=False)
    if pulled.returncode == 0:
        return PUBLIC_BASE
    reason = f"{PUBLIC_BASE} cannot be pulled ({pulled.stderr.strip().splitlines()[-1]})"
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        raise MissingError(f"{reason}, and making a base image needs mmdebstrap and root")
    tree = folder / "base.tar"
    packages = "--include=python3,python3-venv,ca-certificates"
    made = engine.run(
        "mmdebstrap", "--quiet", "--variant=minbase", packages, "trixie", str(tree), check=False
    )
    if made.returncode:
        raise MissingError(f"{reason}, and mmdebstrap fails: {_tail(made)}")
    engine.run("docker", "import", str(tree), MADE_BASE)
    tree.unlink()
    return MADE_BASE


def copy_of_tree(target: Path) -> Path:
    """Copy what is tracked, or would be, to `target`, with the CA bundle that this machine uses."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    for variable in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        bundle = os.environ.get(variable)
        if bundle and Path(bundle).is_file():
            shutil.copy(bundle, target / "deploy" / "certificates" / "machine.crt")
            break
    return target
