"""A whole cluster in containers: engine, image and `up` once for all tests of this folder."""

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compose import engine as engines
from tests.compose.engine import Engine

UP_WITHIN_SECONDS = 120


@dataclass(frozen=True)
class Cluster:
    """The services of deploy/compose.yaml, up and healthy."""

    engine: Engine
    folder: Path
    project: str

    def compose(self, *words: str, check: bool = True) -> str:
        """Run Compose on the project; give what it printed."""
        files = ("--file", str(self.folder / "deploy" / "compose.yaml"))
        command = (*self.engine.compose, "--ansi=never", *files, "--project-name", self.project)
        return self.engine.run(*command, *words, check=check).stdout

    def drumline(self, *words: str, check: bool = True) -> str:
        """Run the command line beside the services, as the user of the cluster."""
        return self.compose("run", "--rm", "--no-TTY", "cli", *words, check=check)


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """A folder that is gone afterwards: an engine's state is large."""
    made = Path(tempfile.mkdtemp(prefix="drumline-compose-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def engine(folder: Path) -> Iterator[Engine]:
    try:
        with engines.running(folder) as found:
            yield found
    except engines.MissingError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def cluster(engine: Engine, folder: Path) -> Iterator[Cluster]:
    try:
        base = engines.base_image(engine, folder)
    except engines.MissingError as reason:
        pytest.skip(str(reason))
    tree = engines.copy_of_tree(folder / "tree")
    project = f"drumline-test-{secrets.token_hex(4)}"
    settings = {"BASE_IMAGE": base, "DRUMLINE_IMAGE": f"{project}:test"}
    engine = Engine({**engine.environment, **settings}, engine.compose)
    made = Cluster(engine, tree, project)
    try:
        made.compose("build")
        made.compose("up", "--detach", "--wait", f"--wait-timeout={UP_WITHIN_SECONDS}")
        yield made
    finally:
        print(made.compose("logs", "--no-color", "--tail=200", check=False))
        made.compose("down", "--volumes", "--remove-orphans", check=False)
        engine.run("docker", "image", "rm", "--force", settings["DRUMLINE_IMAGE"], check=False)
