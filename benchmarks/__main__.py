"""The command: ``python -m benchmarks placement|latency|startup``."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks import latency, placement, report, startup


def main() -> int:
    """Run one benchmark; give the exit status."""
    arguments = _parser().parse_args()
    try:
        asyncio.run(_run(arguments))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped; everything that was started has been ended", file=sys.stderr)
        return 130
    except Exception as error:
        print(f"benchmarks: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


async def _run(arguments: argparse.Namespace) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    surroundings = report.surroundings()
    measure: Callable[[argparse.Namespace], Awaitable[dict[str, Any]]] = arguments.measure
    runs = [await measure(arguments) for _ in range(arguments.repeat)]
    asked = {name: getattr(arguments, name) for name in arguments.asked}
    result = {**asked, **report.combine(runs), **surroundings}
    report.show(arguments.benchmark, result, as_json=arguments.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    kinds = parser.add_subparsers(dest="benchmark", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON object")
    common.add_argument(
        "--repeat", type=_count(100), default=1, help="runs, each on a fresh cluster (1)"
    )

    kind = kinds.add_parser("placement", parents=[common], help="many pods at once")
    kind.add_argument("--nodes", type=_count(5000), default=100, help="simulated nodes (100)")
    kind.add_argument("--pods", type=_count(500_000), default=1000, help="pods in all (1000)")
    kind.add_argument("--batch", type=_count(5000), default=1000, help="pods in a call (1000)")
    kind.set_defaults(asked=["nodes", "pods", "batch"], measure=_placement)

    kind = kinds.add_parser("latency", parents=[common], help="one pod at a time")
    kind.add_argument("--nodes", type=_count(5000), default=100, help="simulated nodes (100)")
    kind.add_argument("--pods", type=_count(10_000), default=100, help="pods of each kind (100)")
    kind.set_defaults(
        asked=["nodes", "pods"], measure=lambda given: latency.measure(given.nodes, given.pods)
    )

    kind = kinds.add_parser("startup", parents=[common], help="`drumline up` to a first answer")
    kind.set_defaults(asked=[], measure=lambda _: startup.measure())
    return parser


async def _placement(given: argparse.Namespace) -> dict[str, Any]:
    room = given.nodes * placement.PODS_PER_NODE
    if given.pods > room:
        raise ValueError(
            f"--pods {given.pods} do not fit: {given.nodes} nodes take {room}; give more --nodes"
        )
    return await placement.measure(given.nodes, given.pods, given.batch)


def _count(most: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        number = int(text)
        if not 1 <= number <= most:
            raise argparse.ArgumentTypeError(f"{number} is not within 1 to {most}")
        return number

    return whole_number


if __name__ == "__main__":
    sys.exit(main())
