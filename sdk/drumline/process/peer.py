"""Who calls: the identity in the certificate that the peer has shown."""

from dataclasses import dataclass
from functools import lru_cache

import grpc
from cryptography import x509
from cryptography.x509.oid import NameOID
from drumline.model.errors import PermissionDeniedError, UnauthenticatedError
from drumline.model.names import (
    IDENTITY_NODE_PREFIX,
    IDENTITY_SCHEDULER_PREFIX,
    IDENTITY_SIMULATOR,
)


@dataclass(frozen=True, slots=True)
class Peer:
    """The caller: its identity (the certificate's CN) and its groups (each O)."""

    identity: str
    groups: tuple[str, ...] = ()

    def require(self, *identities: str) -> None:
        """Raise PermissionDeniedError unless the caller is one of `identities`."""
        if self.identity not in identities:
            raise PermissionDeniedError(
                f'"{self.identity}" may not call this; it is for {" or ".join(identities)}'
            )

    def require_scheduler(self, scheduler_name: str) -> None:
        """Raise PermissionDeniedError unless the caller schedules for this name."""
        self.require(IDENTITY_SCHEDULER_PREFIX + scheduler_name)

    def speaks_for_node(self, node: str) -> bool:
        """Say whether the caller is the node's kubelet, or the simulator."""
        return self.identity in {IDENTITY_NODE_PREFIX + node, IDENTITY_SIMULATOR}

    @property
    def is_simulator(self) -> bool:
        """The caller is a simulator of nodes."""
        return self.identity == IDENTITY_SIMULATOR


def peer_of(context: grpc.aio.ServicerContext) -> Peer:  # type: ignore[type-arg]
    """Read the caller's certificate. Raises UnauthenticatedError when it names nobody."""
    chain = list(context.auth_context().get("x509_pem_cert", ()))
    if not chain:
        raise UnauthenticatedError("the call came without a certificate; connect with mutual TLS")
    return _from_certificate(bytes(chain[0]))


@lru_cache(maxsize=4096)
def _from_certificate(pem: bytes) -> Peer:
    subject = x509.load_pem_x509_certificate(pem).subject
    names = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if len(names) != 1 or not names[0]:
        raise UnauthenticatedError("the certificate names nobody: its subject needs one CN")
    groups = tuple(str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    return Peer(names[0], groups)
