"""What every scheduler's process is told: where the cluster is, and who it is itself."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from drumline.model.names import NAME
from drumline.process.settings import SettingsError, setting
from drumline.process.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Places pods on nodes."""

    listen_address: str = setting(
        "127.0.0.1:0", "HOST:PORT to answer health checks on; port 0 is any that is free"
    )
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
        "",
        "which pods are placed: those with this spec.scheduler_name; when left out, the"
        " program's own name",
    )
    log_level: str = setting("info", "debug, info, warning or error")

    @property
    def tls(self) -> TlsFiles:
        """The three files."""
        return TlsFiles(self.tls_ca, self.tls_certificate, self.tls_key)

    @property
    def instance(self) -> str:
        """The name of this process."""
        return self.instance_id or f"{socket.gethostname()}-{os.getpid()}"

    def name(self, otherwise: str) -> str:
        """Give the scheduler name, or `otherwise`.

        Raises SettingsError when it cannot be one, and when no apiserver is named.
        """
        if not self.apiserver:
            raise SettingsError("--apiserver is empty, and must name at least one HOST:PORT")
        name = self.scheduler_name or otherwise
        if not NAME.fullmatch(name):
            raise SettingsError(
                f"--scheduler-name is {name!r}, and must be a name: at most 63 "
                "lower-case letters, digits, '-' and '.'"
            )
        return name
