"""Settings of the nodecontroller."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from drumline.nodecontroller.rules import Rules
from drumline.process.settings import setting
from drumline.process.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class Settings:
    """Hears the nodes' heartbeats and reports which nodes live."""

    listen_address: str = setting("127.0.0.1:7402", "HOST:PORT to take heartbeats on")
    tls_ca: Path = setting(Path("ca.crt"), "certificate of the cluster's CA")
    tls_certificate: Path = setting(
        Path("nodecontroller.crt"), "this process's certificate, of system:nodecontroller"
    )
    tls_key: Path = setting(Path("nodecontroller.key"), "key of the certificate")
    apiserver: tuple[str, ...] = setting(
        ("127.0.0.1:7400",), "HOST:PORT of each apiserver; one is used at a time"
    )
    instance_id: str = setting("", "name of this process, for people; HOST:PID when left out")
    grace: float = setting(
        40.0,
        "seconds of silence after which a node is unreachable; never less than 4 beat intervals",
        minimum=0.1,
    )
    beat_interval: float = setting(
        10.0, "least number of seconds between two beats of a node", minimum=0.02
    )
    beats_per_second_bound: float = setting(
        1000.0,
        "beats a second that all nodes together stay below: the interval grows with their number",
        minimum=1.0,
    )
    log_level: str = setting("info", "debug, info, warning or error")

    @property
    def tls(self) -> TlsFiles:
        """The three files."""
        return TlsFiles(self.tls_ca, self.tls_certificate, self.tls_key)

    @property
    def rules(self) -> Rules:
        """How often nodes beat and how long they may be silent."""
        return Rules(self.grace, self.beat_interval, self.beats_per_second_bound)

    @property
    def instance(self) -> str:
        """Name of this process."""
        return self.instance_id or f"{socket.gethostname()}:{os.getpid()}"
