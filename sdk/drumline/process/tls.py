"""Credentials of a process: its certificate, its key, and the CA it trusts.

Every connection is mutual TLS: a server asks for a certificate of the cluster's
CA, a client shows one, and both check the other's.
"""

from dataclasses import dataclass
from pathlib import Path

import grpc


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the three PEM files are."""

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def in_folder(cls, folder: Path, name: str) -> "TlsFiles":
        """Give the files as `drumline.process.pki` lays them out."""
        return cls(folder / "ca.crt", folder / f"{name}.crt", folder / f"{name}.key")

    def read(self) -> tuple[bytes, bytes, bytes]:
        """Give the contents, in the order of the fields. Raises OSError that names the file."""
        return _read(self.ca, "CA"), _read(self.certificate, "certificate"), _read(self.key, "key")


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OSError(f"the {what} {path} cannot be read: {error.strerror}") from error


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Give credentials that refuse whoever shows no certificate of the CA."""
    ca, certificate, key = files.read()
    return grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=ca, require_client_auth=True
    )


def channel_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    """Give credentials that show the certificate and trust only the CA."""
    ca, certificate, key = files.read()
    return grpc.ssl_channel_credentials(ca, key, certificate)
