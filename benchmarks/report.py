"""What a measurement was made on, and how its figures are put together and shown."""

import importlib.metadata
import json
import math
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from drumline.cli.up import etcd

Figures = Mapping[str, Any]


def surroundings() -> dict[str, Any]:
    """Describe the machine, the versions, and how busy the machine is before the run."""
    packages = ("drumline", "grpcio", "protobuf", "numpy")
    return {
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
            "system": platform.platform(),
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
    spread = result.get("spread", {})
    for name, value in result.items():
        if name != "spread":
            print(f"  {name:<26} {_text(value)}{_among(spread.get(name))}")


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


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
