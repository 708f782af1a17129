"""Clusters as `drumline up` makes them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of two process nodes and twenty simulated ones, for a module's tests."""
    made = LocalCluster(tmp_path_factory.mktemp("cluster"))
    made.ok("up", "--detach", "--nodes", "2", "--simulated-nodes", "20")
    yield made
    made.ok("down", "--delete")


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster that is not up yet."""
    made = LocalCluster(tmp_path)
    yield made
    made.ok("down", "--delete")
