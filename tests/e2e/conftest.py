"""Clusters as `drumline up` makes them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.user_cluster import UserCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserCluster]:
    """A cluster of two process nodes and twenty simulated ones, for a module's tests."""
    made = UserCluster(tmp_path_factory.mktemp("cluster"))
    made.ok("up", "--detach", "--nodes", "2", "--simulated-nodes", "20")
    yield made
    made.ok("down", "--delete")


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[UserCluster]:
    """A cluster that is not up yet."""
    made = UserCluster(tmp_path)
    yield made
    made.ok("down", "--delete")
