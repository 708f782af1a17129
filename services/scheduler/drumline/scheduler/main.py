"""The scheduler's process."""

import sys

from drumline.process import run as process
from drumline.process.channels import Endpoints
from drumline.scheduler.session import Scheduler
from drumline.scheduler.settings import Settings


async def run(settings: Settings) -> None:
    """Schedule until cancelled; healthy while subscribed, and told of everything that is."""
    plan = settings.plan
    endpoints = Endpoints(settings.apiserver, settings.tls)
    try:
        async with process.serving(settings.listen_address, settings.tls, []) as (health, _):
            await Scheduler(endpoints, plan, health.set_serving).run()
    finally:
        await endpoints.close()


def main() -> int:
    """Run the process; give its exit status."""
    return process.main("scheduler", Settings, run)


if __name__ == "__main__":
    sys.exit(main())
