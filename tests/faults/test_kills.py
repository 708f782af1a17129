"""Every process of a cluster is killed, one after another, while pods run."""

import os
import signal
from pathlib import Path
from typing import Any

from tests.support.local_cluster import LocalCluster, eventually, local_cluster


def _identity(pod: dict[str, Any]) -> tuple[str, str]:
    (container,) = pod["status"]["containers"]
    return container["runtimeId"], container["startTime"]


def _lives(pod: dict[str, Any]) -> bool:
    runtime, _, pid = _identity(pod)[0].partition(":")
    assert runtime == "process"
    os.kill(int(pid), 0)
    return True


def _ended(cluster: LocalCluster, name: str) -> int:
    """Wait for a pod's end; give its exit code."""

    def ended() -> dict[str, Any] | None:
        pod = cluster.pod(name)
        return pod if pod["status"]["phase"] == "Terminated" else None

    code: int = eventually(ended, f"{name} to end")["status"]["containers"][0]["exitCode"]
    return code


def test_l4_after_kill_of_each_process_the_cluster_goes_on_and_pods_keep_their_processes(
    tmp_path: Path,
) -> None:
    with local_cluster(tmp_path, "--nodes", "1") as cluster:
        cluster.run("run", "long", "--", "sh", "-c", "while :; do date +%s%N; sleep 0.1; done")
        cluster.run("wait", "--for=running", "pod", "long")
        before = cluster.pod("long")
        for component in ("apiserver", "scheduler", "nodecontroller", "node-1"):
            # It ends while a process is not there, which perhaps it needs.
            beside, later = f"beside-{component}", f"after-{component}"
            cluster.run("run", beside, "--", "sh", "-c", "sleep 1; exit 5")
            cluster.kill(component, signal.SIGKILL)
            cluster.run("run", later, "--", "sh", "-c", f"echo this is {later}; exit 7")
            assert _ended(cluster, later) == 7
            assert cluster.run("logs", later) == f"this is {later}\n"
            assert _ended(cluster, beside) == 5
        after = cluster.pod("long")
        assert after["status"]["phase"] == "Running"
        assert _identity(after) == _identity(before)
        assert _lives(after)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        lines = cluster.run("logs", "long").split()
        assert lines == sorted(lines)
        cluster.run("delete", "pod", "long")
        gone = int(_identity(before)[0].partition(":")[2])
        eventually(lambda: not Path(f"/proc/{gone}").exists(), "the pod's process to be gone")
