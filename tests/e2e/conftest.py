"""Clusters as `drumline up` makes them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.user_cluster import UserCluster, cluster

__all__ = ["cluster", "new_cluster"]


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[UserCluster]:
    """A cluster that is not up yet."""
    made = UserCluster(tmp_path)
    yield made
    made.ok("down", "--delete")
