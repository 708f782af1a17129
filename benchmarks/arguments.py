"""The command line: the benchmarks, and what each takes."""

import argparse
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks import (
    bulk,
    heartbeats,
    latency,
    placement,
    restart,
    rounds,
    scale,
    startup,
    store,
    watch,
)
from benchmarks.flame import Flame

# py-spy reads Python's processes only.
_FLAMMABLE = ("apiserver", "scheduler", "nodecontroller", "simulator")

Measure = Callable[[argparse.Namespace], Awaitable[dict[str, Any]]]


def parser() -> argparse.ArgumentParser:
    """Make the parser. `measure` of what it gives runs the benchmark, `asked` names its options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Drumline on this machine; benchmarks/README.md says how.",
    )
    kinds = made.add_subparsers(dest="benchmark", required=True)
    _placement(kinds)
    _latency(kinds)
    _heartbeats(kinds)
    _watch(kinds)
    _scale(kinds)
    _restart(kinds)
    _store(kinds)
    _bulk(kinds)
    _rounds(kinds)
    what = "`drumline up` to a first answer"
    _kind(kinds, "startup", what, lambda _: startup.measure(), flame=False)
    return made


def _placement(kinds: Any) -> None:
    async def measure(given: argparse.Namespace) -> dict[str, Any]:
        return await placement.measure(
            given.nodes, given.pods, given.batch, given.callers, _flame(given)
        )

    kind = _kind(kinds, "placement", "many pods at once", measure)
    _number(kind, "nodes", 100, 20_000, "simulated nodes")
    _number(kind, "pods", 1000, 500_000, "pods in all")
    _number(kind, "batch", 1000, 5000, "pods in a call")
    _number(kind, "callers", 1, 1000, "callers, each with one call under way")


def _latency(kinds: Any) -> None:
    async def measure(given: argparse.Namespace) -> dict[str, Any]:
        if given.rate:
            given.asked = ["nodes", "rate", "seconds"]
            return await latency.measure_at_rate(
                given.nodes, given.rate, given.seconds, _flame(given)
            )
        given.asked = ["nodes", "pods"]
        return await latency.measure(given.nodes, given.pods, _flame(given))

    kind = _kind(kinds, "latency", "one pod at a time, or singles at a steady rate", measure)
    _number(kind, "nodes", 100, 20_000, "simulated nodes")
    _number(kind, "pods", 100, 10_000, "pods of each kind, one at a time; not with --rate")
    _number(kind, "rate", 0, 10_000, "pods a second, singly, whatever is answered", least=0)
    _number(kind, "seconds", 20, 600, "for how long, with --rate")


def _heartbeats(kinds: Any) -> None:
    async def measure(given: argparse.Namespace) -> dict[str, Any]:
        return await heartbeats.measure(
            given.nodes, given.interval, given.seconds, _flame(given), multiplex=given.multiplex
        )

    kind = _kind(kinds, "heartbeats", "beats of many nodes", measure)
    _number(kind, "nodes", 1000, 5000, "nodes")
    kind.add_argument(
        "--interval", type=_interval, default=0.1, help="seconds between a node's beats (0.1)"
    )
    _number(kind, "seconds", 10, 600, "for how long")
    kind.add_argument(
        "--multiplex", action="store_true", help="one connection and stream for all nodes"
    )
    kind.set_defaults(asked=["nodes", "interval", "seconds", "multiplex"])


def _watch(kinds: Any) -> None:
    async def measure(given: argparse.Namespace) -> dict[str, Any]:
        return await watch.measure(
            given.rate, given.watchers, given.pods, given.seconds, _flame(given)
        )

    kind = _kind(kinds, "watch", "watches of everything while it changes", measure)
    _number(kind, "rate", 2000, 50_000, "changes a second")
    _number(kind, "watchers", 10, 1000, "watches, all of everything")
    _number(kind, "pods", 5000, 100_000, "pods that are there")
    _number(kind, "seconds", 20, 600, "for how long")


def _scale(kinds: Any) -> None:
    async def measure(given: argparse.Namespace) -> dict[str, Any]:
        return await scale.measure(given.sizes, given.batch, _flame(given))

    kind = _kind(kinds, "scale", "growth: the same on larger clusters", measure)
    text = ",".join(f"{nodes}:{pods}" for nodes, pods in scale.SIZES)
    kind.add_argument(
        "--sizes", type=_sizes, default=scale.SIZES, help=f"NODES:PODS,NODES:PODS ({text})"
    )
    _number(kind, "batch", 1000, 5000, "pods in a call")
    kind.set_defaults(asked=["batch"])


def _restart(kinds: Any) -> None:
    async def measure(given: argparse.Namespace) -> dict[str, Any]:
        return await restart.measure(given.nodes, given.pods, given.batch, _flame(given))

    kind = _kind(kinds, "restart", "memory and restart of an apiserver with many pods", measure)
    _number(kind, "nodes", 5000, 20_000, "simulated nodes")
    _number(kind, "pods", 50_000, 500_000, "pods in all")
    _number(kind, "batch", 1000, 5000, "pods in a call")


def _store(kinds: Any) -> None:
    async def measure(given: argparse.Namespace) -> dict[str, Any]:
        return await store.measure(given.pods, given.batch, given.value_bytes)

    kind = _kind(kinds, "store", "what etcd itself takes", measure, flame=False)
    _number(kind, "pods", 50_000, 500_000, "pods whose records are written")
    _number(kind, "batch", 1000, 2000, "pods of a transaction")
    _number(kind, "value-bytes", 300, 100_000, "bytes of a record")


def _bulk(kinds: Any) -> None:
    async def measure(given: argparse.Namespace) -> dict[str, Any]:
        return await bulk.measure(
            given.nodes, given.pods, given.batch, given.callers, given.rate, _flame(given)
        )

    kind = _kind(kinds, "bulk", "bulks against single calls, plain and compressed", measure)
    _number(kind, "nodes", 1000, 20_000, "simulated nodes")
    _number(kind, "pods", 5000, 100_000, "pods in all")
    _number(kind, "batch", 100, 5000, "pods in a bulk")
    _number(kind, "callers", 32, 1000, "callers with single calls; not with --rate")
    _number(kind, "rate", 0, 10_000, "pods a second, whatever is answered; 0: all there is", 0)


def _rounds(kinds: Any) -> None:
    async def measure(given: argparse.Namespace) -> dict[str, Any]:
        return await rounds.measure(given.nodes, given.pods, given.parked)

    kind = _kind(kinds, "rounds", "the standard scheduler's deciding alone", measure, flame=False)
    _number(kind, "nodes", 5000, 50_000, "nodes")
    _number(kind, "pods", 1000, 100_000, "pods of a round")
    _number(kind, "parked", 10_000, 500_000, "pods that wait and fit nowhere")


def _kind(
    kinds: Any, name: str, what: str, measure: Measure, *, flame: bool = True
) -> argparse.ArgumentParser:
    kind: argparse.ArgumentParser = kinds.add_parser(name, help=what, description=what)
    kind.add_argument("--json", action="store_true", help="print one JSON object")
    kind.add_argument(
        "--repeat", type=_count(1, 100), default=1, help="runs, each on a fresh cluster (1)"
    )
    kind.set_defaults(flame=None)
    if flame:
        kind.add_argument("--flame", type=Path, help="SVG file for a flame graph of one process")
        kind.add_argument(
            "--flame-process", choices=_FLAMMABLE, default=_FLAMMABLE[0], help="which (apiserver)"
        )
    kind.set_defaults(measure=measure, asked=[])
    return kind


def _number(
    kind: argparse.ArgumentParser, name: str, default: int, most: int, what: str, least: int = 1
) -> None:
    kind.add_argument(
        f"--{name}", type=_count(least, most), default=default, help=f"{what} ({default})"
    )
    kind.set_defaults(asked=[*kind.get_default("asked"), name.replace("-", "_")])


def _flame(given: argparse.Namespace) -> Flame | None:
    return Flame(given.flame_process, given.flame) if given.flame else None


def _count(least: int, most: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        number = int(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{number} is not within {least} to {most}")
        return number

    return whole_number


def _interval(text: str) -> float:
    seconds = float(text)
    if not 0.02 <= seconds <= 60:
        raise argparse.ArgumentTypeError(f"{seconds} is not within 0.02 to 60 seconds")
    return seconds


def _sizes(text: str) -> tuple[scale.Size, ...]:
    try:
        return scale.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
