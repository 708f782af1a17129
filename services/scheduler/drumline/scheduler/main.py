"""The scheduler's process."""

import sys

from drumline.process import run as process
from drumline.process.channels import Endpoints
from drumline.process.version import VERSION
from drumline.scheduler.session import Subscription
from drumline.scheduler.settings import Settings
from drumline.schedulers.connection import stay_subscribed
from drumline.schedulers.session import Session


async def run(settings: Settings) -> None:
    """Schedule until cancelled; healthy while subscribed, and told of everything that is."""
    plan = settings.plan
    endpoints = Endpoints(settings.apiserver, settings.tls)
    session = Session(plan.scheduler_name, plan.instance_id, VERSION)
    try:
        async with process.serving(settings.listen_address, settings.tls, []) as (health, _):
            await stay_subscribed(
                endpoints,
                session,
                lambda stub, synced: Subscription(stub, plan, session, synced).run(),
                health.set_serving,
            )
    finally:
        await endpoints.close()


def main() -> int:
    """Run the process; give its exit status."""
    return process.main("scheduler", Settings, run)


if __name__ == "__main__":
    sys.exit(main())
