"""Settings of the scheduler."""

from dataclasses import dataclass

from drumline.model.names import DEFAULT_SCHEDULER
from drumline.process.settings import SettingsError, setting
from drumline.scheduler.placement import Scoring
from drumline.scheduler.session import Plan
from drumline.schedulers import SchedulerSettings


@dataclass(frozen=True, slots=True)
class Settings(SchedulerSettings):
    """Places pods on nodes."""

    listen_address: str = setting("127.0.0.1:7403", "HOST:PORT to answer health checks on")
    scheduler_name: str = setting(
        DEFAULT_SCHEDULER, "which pods are placed: those with this spec.scheduler_name"
    )
    scoring: str = setting(
        "spread", "spread: the node with the least in use comes first; pack: the one with the most"
    )
    safety_retry_seconds: float = setting(
        60.0,
        "pods that fit nowhere are tried again after at most this long, even if nothing changed",
        minimum=0.1,
    )

    @property
    def plan(self) -> Plan:
        """For whom is scheduled, and how. Raises SettingsError."""
        name = self.name(DEFAULT_SCHEDULER)
        return Plan(name, self.instance, self._scoring(), self.safety_retry_seconds)

    def _scoring(self) -> Scoring:
        if self.scoring == "spread":
            return "spread"
        if self.scoring == "pack":
            return "pack"
        raise SettingsError(f"--scoring is {self.scoring!r}, and must be spread or pack")
