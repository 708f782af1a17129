"""Settings of the scheduler."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from drumline.model.names import DEFAULT_SCHEDULER, NAME
from drumline.process.settings import SettingsError, setting
from drumline.process.tls import TlsFiles
from drumline.scheduler.placement import Scoring
from drumline.scheduler.session import Plan


@dataclass(frozen=True, slots=True)
class Settings:
    """Places pods on nodes."""

    listen_address: str = setting("127.0.0.1:7403", "HOST:PORT to answer health checks on")
    tls_ca: Path = setting(Path("ca.crt"), "certificate of the cluster's CA")
    tls_certificate: Path = setting(
        Path("scheduler.crt"), "this process's certificate, of system:scheduler:NAME"
    )
    tls_key: Path = setting(Path("scheduler.key"), "key of the certificate")
    apiserver: tuple[str, ...] = setting(
        ("127.0.0.1:7400",), "HOST:PORT of each apiserver; one is used at a time"
    )
    instance_id: str = setting("", "name of this process, for people; HOST-PID when left out")
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
    log_level: str = setting("info", "debug, info, warning or error")

    @property
    def tls(self) -> TlsFiles:
        """The three files."""
        return TlsFiles(self.tls_ca, self.tls_certificate, self.tls_key)

    @property
    def plan(self) -> Plan:
        """For whom is scheduled, and how. Raises SettingsError."""
        if not self.apiserver:
            raise SettingsError("--apiserver is empty, and must name at least one HOST:PORT")
        if not NAME.fullmatch(self.scheduler_name):
            raise SettingsError(
                f"--scheduler-name is {self.scheduler_name!r}, and must be a name: at most 63 "
                "lower-case letters, digits, '-' and '.'"
            )
        instance = self.instance_id or f"{socket.gethostname()}-{os.getpid()}"
        return Plan(self.scheduler_name, instance, self._scoring(), self.safety_retry_seconds)

    def _scoring(self) -> Scoring:
        if self.scoring == "spread":
            return "spread"
        if self.scoring == "pack":
            return "pack"
        raise SettingsError(f"--scoring is {self.scoring!r}, and must be spread or pack")
