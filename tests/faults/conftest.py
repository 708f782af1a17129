"""The clusters that are disturbed."""

from tests.support.user_cluster import cluster

__all__ = ["cluster"]
