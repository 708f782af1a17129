"""Settings of the apiserver."""

import socket
from dataclasses import dataclass
from pathlib import Path

from drumline.process.settings import setting
from drumline.process.tls import TlsFiles


@dataclass(frozen=True)
class Settings:
    """The apiserver: the only process that talks to etcd. It serves users, schedulers and nodes."""

    listen_address: str = setting("127.0.0.1:7400", "HOST:PORT to serve on")
    instance_id: str = setting(socket.gethostname(), "name of this process, for people")
    etcd: tuple[str, ...] = setting(("127.0.0.1:2379",), "etcd's members, each HOST:PORT")
    etcd_ca: Path = setting(Path("certs/ca.crt"), "CA that signed etcd's certificate")
    etcd_certificate: Path = setting(Path("certs/apiserver.crt"), "certificate to show to etcd")
    etcd_key: Path = setting(Path("certs/apiserver.key"), "key of that certificate")
    etcd_timeout: float = setting(
        5.0, "seconds that a call to etcd may take before it counts as failed", minimum=0.1
    )
    tls_ca: Path = setting(Path("certs/ca.crt"), "CA of the cluster, which every peer must have")
    tls_certificate: Path = setting(Path("certs/apiserver.crt"), "certificate to serve with")
    tls_key: Path = setting(Path("certs/apiserver.key"), "key of that certificate")
    watch_history: int = setting(
        10_000, "changes of each kind of object that a watch can resume over", minimum=1
    )
    bookmark_interval: float = setting(
        10.0, "seconds after which an idle watch is told the newest version", minimum=0.1
    )
    ended_pods_age: float = setting(3600.0, "seconds that a pod is kept after its end", minimum=0)
    ended_pods_count: int = setting(
        1000, "pods that are kept after their end, in each namespace", minimum=0
    )
    ended_pods_interval: float = setting(
        10.0, "seconds between looks for ended pods to remove", minimum=0.1
    )
    infeasible_interval: float = setting(
        1.0, "seconds between looks for pods to end because no node fits them", minimum=0.1
    )
    session_seconds: int = setting(
        3, "seconds that a scheduler's session lives when it is not renewed", minimum=2
    )
    compaction_interval: float = setting(300.0, "seconds between compactions of etcd", minimum=0.1)
    compaction_keep: float = setting(
        600.0, "seconds of etcd's history that are kept at least", minimum=0
    )
    log_level: str = setting("info", "least level that is logged: debug, info, warning, error")

    @property
    def tls(self) -> TlsFiles:
        """The files to serve with."""
        return TlsFiles(self.tls_ca, self.tls_certificate, self.tls_key)

    @property
    def etcd_tls(self) -> TlsFiles:
        """The files to reach etcd with."""
        return TlsFiles(self.etcd_ca, self.etcd_certificate, self.etcd_key)
