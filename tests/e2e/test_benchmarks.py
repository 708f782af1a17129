"""Each benchmark runs to its end, prints its figures, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 100

PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
MAY_TRACE = os.geteuid() == 0 or not PTRACE_SCOPE.exists() or PTRACE_SCOPE.read_text()[0] == "0"


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def figures(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    process = start(tmp_path, *arguments, "--json")
    said, complaint = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, complaint
    assert list(tmp_path.glob("drumline-benchmark-*")) == []
    found: dict[str, Any] = json.loads(said)
    assert {"machine", "versions", "load_before"} <= found.keys()
    return found


def test_placement_prints_what_was_done_and_what_it_cost(tmp_path: Path) -> None:
    found = figures(tmp_path, "placement", "--nodes=5", "--pods=20", "--repeat=2")
    assert found["create_per_s"] > 0
    assert found["assigned_per_s"] > 0
    assert 0 < found["latency_p50_ms"] <= found["latency_p99_ms"]
    processes = {"etcd", "apiserver", "nodecontroller", "scheduler", "simulator", "caller"}
    assert found["rss_mb"].keys() >= processes
    assert found["cpu_s"].keys() == processes | {"driver"}
    assert found["server_cpu_ms_a_pod"] > 0
    assert found["others_cpu"] >= 0
    # Of each pod at least what the user wants, where it goes, and what it is.
    assert found["etcd_puts"] >= 60
    low, high = found["spread"]["assigned_per_s"]
    assert low <= found["assigned_per_s"] <= high


def test_latency_measures_simulated_and_real_pods(tmp_path: Path) -> None:
    found = figures(tmp_path, "latency", "--nodes=2", "--pods=2")
    for kind in ("simulated", "process"):
        assert 0 < found[f"{kind}_assigned_p50_ms"] <= found[f"{kind}_running_p99_ms"]


def test_latency_at_a_rate_counts_from_when_a_pod_was_meant_to_be_sent(tmp_path: Path) -> None:
    found = figures(tmp_path, "latency", "--nodes=2", "--rate=20", "--seconds=2")
    assert 0 < found["latency_p50_ms"] <= found["latency_p99_ms"]
    assert found["sent_late_p99_ms"] >= 0
    assert found["assigned_s"] >= 39 / 20


def test_heartbeats_are_answered_and_stored_nowhere(tmp_path: Path) -> None:
    for more in ([], ["--multiplex"]):
        found = figures(tmp_path, "heartbeats", "--nodes=5", "--seconds=1", *more)
        assert found["beats_per_s"] > 0
        assert found["etcd_puts"] == 0


def test_every_watch_shows_every_change(tmp_path: Path) -> None:
    found = figures(tmp_path, "watch", "--rate=100", "--watchers=2", "--pods=50", "--seconds=2")
    assert found["changes"] == 200
    assert (found["lost"], found["disordered"]) == (0, 0)
    assert 0 < found["lag_p50_ms"] <= found["lag_p99_ms"]
    assert "watchers" in found["cpu_s"]


def test_scale_compares_each_size_with_the_first(tmp_path: Path) -> None:
    found = figures(tmp_path, "scale", "--sizes=2:20,3:30")
    assert found["2x20"]["cpu_ratio"] == 1
    assert found["3x30"]["cpu_ratio"] > 0
    assert found["3x30"]["rss_at_rest_mb"]["apiserver"] > 0
    assert found["3x30"]["simulated_assigned_p50_ms"] > 0


def test_restart_kills_the_apiserver_and_finds_all_pods_again(tmp_path: Path) -> None:
    found = figures(tmp_path, "restart", "--nodes=2", "--pods=20")
    assert found["apiserver_rss_mb"] > 0
    assert 0 < found["ready_s"] <= found["away_s"] <= found["new_pod_runs_s"]


def test_rounds_place_what_fits_and_count_what_does_not(tmp_path: Path) -> None:
    found = figures(tmp_path, "rounds", "--nodes=50", "--pods=40", "--parked=100")
    assert 0 < found["mixed_placed"] < 40
    assert found["identical_placed"] == 40
    assert 0 < found["newcomer_p50_ms"] <= found["newcomer_max_ms"]


def test_store_measures_etcd_alone(tmp_path: Path) -> None:
    found = figures(tmp_path, "store", "--pods=20", "--batch=10")
    for in_flight in ("in_flight_1", "in_flight_4"):
        assert found[in_flight]["assign_keys_per_s"] > 0


def test_bulk_is_compared_with_single_calls(tmp_path: Path) -> None:
    found = figures(tmp_path, "bulk", "--nodes=2", "--pods=20", "--batch=10", "--callers=4")
    for way, most in (("bulk", 1), ("single", 4)):
        for compression in ("none", "gzip"):
            assert found[f"{way}_{compression}"]["most_in_flight"] <= most


@pytest.mark.skipif(not MAY_TRACE, reason="this user may not look into other processes")
def test_a_flame_graph_is_drawn_on_request(tmp_path: Path) -> None:
    file = tmp_path / "flame.svg"
    figures(tmp_path, "latency", "--nodes=2", "--pods=2", f"--flame={file}")
    assert "<svg" in file.read_text()


def test_startup_measures_the_command(tmp_path: Path) -> None:
    found = figures(tmp_path, "startup")
    assert 0 < found["answered_s"] <= found["nodes_ready_s"]


def test_a_stopped_benchmark_ends_what_it_started(tmp_path: Path) -> None:
    process = start(tmp_path, "placement", "--nodes=5", "--pods=20")
    benchmark = psutil.Process(process.pid)
    deadline = time.monotonic() + SECONDS
    while len(children := benchmark.children(recursive=True)) < 5:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, complaint
    assert [child for child in children if child.is_running()] == []
    assert list(tmp_path.glob("drumline-benchmark-*")) == []


def test_more_pods_than_the_nodes_take_are_refused(tmp_path: Path) -> None:
    process = start(tmp_path, "placement", "--nodes=1", "--pods=111")
    _, complaint = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "--pods 111 do not fit" in complaint
