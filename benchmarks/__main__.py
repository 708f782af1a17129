"""Measures Drumline on this machine; benchmarks/README.md says how, and what came out."""

import argparse
import asyncio
import signal
import sys
from typing import Any

from benchmarks import report
from benchmarks.arguments import Measure, parser


def main() -> int:
    """Run one benchmark; give the exit status."""
    asked = parser()
    arguments = asked.parse_args()
    if arguments.flame and arguments.repeat > 1:
        asked.error("--flame draws one run: leave --repeat out")
    try:
        asyncio.run(_run(arguments))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped; everything that was started has been ended", file=sys.stderr)
        return 130
    except Exception as error:
        print(f"benchmarks: {report.said(error)}", file=sys.stderr)
        return 1
    return 0


async def _run(arguments: argparse.Namespace) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    surroundings = report.surroundings()
    measure: Measure = arguments.measure
    runs: list[dict[str, Any]] = [await measure(arguments) for _ in range(arguments.repeat)]
    asked = {name: getattr(arguments, name) for name in arguments.asked}
    if arguments.flame:
        asked["flame"] = f"{arguments.flame} of {arguments.flame_process}; the run was slower by it"
    result = {**asked, **report.combine(runs), **surroundings}
    report.show(arguments.benchmark, result, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
