"""What a measurement was made on, and how its figures are put together and shown."""

import importlib.metadata
import json
import math
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from drumline.cli.up import etcd

Figures = Mapping[str, Any]

_FSYNCS = 21


def surroundings() -> dict[str, Any]:
    """Describe the machine, the versions, and how busy the machine is before the run."""
    packages = ("drumline", "grpcio", "protobuf", "numpy", "cryptography")
    return {
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
            "system": platform.platform(),
            "fsync_ms": _fsync_ms(),
        },
        "versions": {
            "python": platform.python_version(),
            "etcd": etcd.with_version(etcd.find("")).version,
            **{name: importlib.metadata.version(name) for name in packages},
        },
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def combine(runs: Sequence[Figures]) -> dict[str, Any]:
    """Give the median of each figure over the runs, and beside it least and greatest."""
    medians = _over(runs, lambda values: round(statistics.median(values), 3))
    if len(runs) == 1:
        return medians
    spread = _over(runs, lambda values: [min(values), max(values)])
    return {**medians, "spread": spread, "repeats": len(runs)}


def percentile(values: Sequence[float], share: float) -> float:
    """Give the least value that at least `share` (0 to 1) of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def show(title: str, result: Figures, *, as_json: bool) -> None:
    """Print a result: one JSON object, or lines for people."""
    if as_json:
        print(json.dumps({"benchmark": title, **result}))
        return
    print(title)
    shown = {name: value for name, value in result.items() if name != "spread"}
    _lines(shown, result.get("spread", {}), "  ")


def said(error: BaseException) -> str:
    """Give what went wrong in words; of several that failed together, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _lines(figures: Figures, spread: Figures, indent: str) -> None:
    for name, value in figures.items():
        nested = isinstance(value, Mapping)
        if nested and any(isinstance(inner, Mapping) for inner in value.values()):
            print(f"{indent}{name}")
            _lines(value, spread.get(name, {}), indent + "  ")
        else:
            print(f"{indent}{name:<26} {_text(value)}{_among(spread.get(name))}")


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {inner}" for name, inner in value.items())
    return str(value)


def _among(ends: Any) -> str:
    return f"   ({ends[0]} to {ends[1]})" if isinstance(ends, list) else ""


def _over(runs: Sequence[Figures], of: Any) -> dict[str, Any]:
    first = runs[0]
    return {
        name: _over([run[name] for run in runs], of)
        if isinstance(value, Mapping)
        else of([run[name] for run in runs])
        for name, value in first.items()
    }


def _fsync_ms() -> float:
    """Give the median time, in ms, to make 4 KiB durable where benchmarks keep their files."""
    taken = []
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in range(_FSYNCS):
            file.write(bytes(4096))
            began = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(1e3 * (time.perf_counter() - began))
    return round(statistics.median(taken), 2)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
