"""Each benchmark runs to its end, prints its figures, and leaves nothing behind."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 100


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
    processes = {"etcd", "apiserver", "nodecontroller", "scheduler", "simulator"}
    assert found["rss_mb"].keys() >= processes
    assert found["cpu_s"].keys() == processes | {"driver"}
    # Of each pod at least what the user wants, where it goes, and what it is.
    assert found["etcd_puts"] >= 60
    low, high = found["spread"]["assigned_per_s"]
    assert low <= found["assigned_per_s"] <= high


def test_latency_measures_simulated_and_real_pods(tmp_path: Path) -> None:
    found = figures(tmp_path, "latency", "--nodes=2", "--pods=2")
    for kind in ("simulated", "process"):
        assert 0 < found[f"{kind}_assigned_p50_ms"] <= found[f"{kind}_running_p99_ms"]


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
