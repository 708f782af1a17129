"""deploy/compose.yaml is a cluster: nodes join by name, pods run, and state outlives containers."""

import time

import pytest

from tests.compose.conftest import Cluster

# The first test waits for the image to be built and the cluster to come up.
pytestmark = pytest.mark.timeout(900)

READY_WITHIN_SECONDS = 30
NODES = ("node-1", "node-2", "node-3")


def test_three_kubelets_join_over_mutual_tls(cluster: Cluster) -> None:
    def ready() -> set[str]:
        listed = cluster.drumline("get", "nodes").splitlines()
        return {line.split()[0] for line in listed if "Ready" in line.split()}

    # A kubelet serves once it is registered; its first beat may come a moment later.
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while ready() != set(NODES):
        assert time.monotonic() < deadline, cluster.drumline("get", "nodes")


def test_a_pod_runs_and_its_output_comes_back_through_the_apiserver(cluster: Cluster) -> None:
    said = cluster.drumline("run", "greeting", "--follow", "--", "sh", "-c", "echo on $(hostname)")
    assert said.split()[-1] in NODES
    assert said in cluster.drumline("logs", "greeting")


def test_state_outlives_the_containers_of_etcd_and_apiserver(cluster: Cluster) -> None:
    cluster.drumline("run", "sleeper", "--", "sleep", "600")
    cluster.drumline("wait", "pod", "sleeper", "--for=running")

    cluster.compose("up", "--detach", "--wait", "--force-recreate", "--no-deps", "etcd")
    cluster.compose("up", "--detach", "--wait", "--force-recreate", "--no-deps", "apiserver")

    assert "sleeper" in cluster.drumline("get", "pods", "--phase=running")
    cluster.drumline("delete", "pod", "sleeper", "--wait")
    said = cluster.drumline("run", "after", "--follow", "--rm", "--", "echo", "still here")
    assert said.endswith("still here\n")
