"""Settings of the kubelet."""

import socket
from dataclasses import dataclass
from pathlib import Path

from drumline.process.settings import setting
from drumline.process.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class Settings:
    """Runs the pods that are assigned to a node, or pretends to, for many nodes."""

    node_name: str = setting("", "name of the node; the host's name when left out")
    listen_address: str = setting(
        "127.0.0.1:0", "HOST:PORT to answer the apiserver on; port 0 takes a free one"
    )
    advertise_address: str = setting(
        "",
        "HOST:PORT that the apiserver reaches it at; what it listens on when left out",
    )
    tls_ca: Path = setting(Path("ca.crt"), "certificate of the cluster's CA")
    tls_certificate: Path = setting(
        Path("kubelet.crt"),
        "this process's certificate, of system:node:NAME, or of system:simulator",
    )
    tls_key: Path = setting(Path("kubelet.key"), "key of the certificate")
    apiserver: tuple[str, ...] = setting(
        ("127.0.0.1:7400",), "HOST:PORT of each apiserver; one is used at a time"
    )
    nodecontroller: tuple[str, ...] = setting(
        ("127.0.0.1:7402",), "HOST:PORT of each nodecontroller; one is used at a time"
    )
    runtime: str = setting(
        "process", "how pods are run: process (on this host) or simulated (in pretence)"
    )
    state_dir: Path = setting(
        Path("/var/lib/drumline/kubelet"),
        "folder for the pods' files and output, this kubelet's alone (process runtime)",
    )
    cpu: str = setting("", "processor time for pods; all of the host's, or 32 for simulated nodes")
    memory: str = setting("", "memory for pods; all of the host's, or 128Gi for simulated nodes")
    pods: int = setting(110, "how many pods at once, on each node", minimum=1)
    resource: tuple[str, ...] = setting(
        (), "further resources of each node, NAME=AMOUNT (example.com/gpu=2)"
    )
    label: tuple[str, ...] = setting((), "labels that the node declares, KEY=VALUE")
    taint: tuple[str, ...] = setting(
        (), "taints that the node declares, KEY=VALUE:NoSchedule or KEY:NoSchedule"
    )
    simulated_nodes: int = setting(
        1, "how many nodes to pretend, 1 to 5,000 (simulated runtime)", minimum=1
    )
    node_name_prefix: str = setting(
        "sim", "names of simulated nodes are this, a hyphen and a number"
    )
    keep_ended_pods: int = setting(
        200, "of so many ended pods on each node the output is kept", minimum=0
    )
    keep_ended_pods_seconds: float = setting(
        3600.0, "seconds for which the output of ended pods is kept", minimum=0
    )
    stop_pods_at_exit: bool = setting(
        False,
        "end all pods, within 5 seconds, when this process is asked to end; "
        "otherwise they run on and are found again",
    )
    log_level: str = setting("info", "debug, info, warning or error")

    @property
    def tls(self) -> TlsFiles:
        """The three files."""
        return TlsFiles(self.tls_ca, self.tls_certificate, self.tls_key)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that this process carries."""
        if self.runtime == "simulated":
            width = max(4, len(str(self.simulated_nodes)))
            numbers = range(1, self.simulated_nodes + 1)
            return tuple(f"{self.node_name_prefix}-{number:0{width}}" for number in numbers)
        return (self.node_name or socket.gethostname().lower(),)
