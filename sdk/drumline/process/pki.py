"""Makes a cluster's certificate authority and the certificates that it signs.

Files lie side by side in one folder: ``ca.crt``, ``ca.key``, and for each name
``NAME.crt``, ``NAME.key``; keys are readable by their owner only. Keys are EC
P-256, which are quick to make and to verify.
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Certificates are valid from a little before they are made, for peers whose
# clocks are behind.
_BACKDATED = datetime.timedelta(minutes=5)
_CA_LIFETIME = datetime.timedelta(days=3650)
_LIFETIME = datetime.timedelta(days=365)


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """Whose certificate: `name` of its files, identity, groups, and the hosts it serves on."""

    name: str
    identity: str
    groups: Sequence[str] = ()
    hosts: Sequence[str] = field(default=("localhost", "127.0.0.1", "::1"))


def ensure_ca(folder: Path, now: datetime.datetime) -> None:
    """Make the CA unless the folder has one."""
    if (folder / "ca.crt").exists() and (folder / "ca.key").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "drumline-cluster-ca")])
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(name, name, key, now, _CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(key_id, critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_pair(folder, "ca", certificate, key)


def ensure_certificates(
    folder: Path, requests: Sequence[CertificateRequest], now: datetime.datetime
) -> None:
    """Make the CA and each certificate that the folder lacks, or that has expired."""
    ensure_ca(folder, now)
    missing = [r for r in requests if not _is_valid(folder / f"{r.name}.crt", now)]
    if not missing:
        return
    ca = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    ca_key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    for request in missing:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, request.identity),
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, g) for g in request.groups),
            ]
        )
        certificate = (
            _builder(subject, ca.subject, key, now, _LIFETIME)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage(
                    [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
                ),
                critical=False,
            )
            .add_extension(
                x509.SubjectAlternativeName([_host(host) for host in request.hosts]), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()),
                critical=False,
            )
            .sign(ca_key, hashes.SHA256())
        )
        _write_pair(folder, request.name, certificate, key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    lifetime: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + lifetime)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _is_valid(path: Path, now: datetime.datetime) -> bool:
    if not path.exists() or not path.with_suffix(".key").exists():
        return False
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc > now


def _write_pair(
    folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    # The key first: a certificate without its key would look complete.
    _write(folder / f"{name}.key", pem, 0o600)
    _write(folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _write(path: Path, content: bytes, mode: int) -> None:
    temporary = path.with_suffix(path.suffix + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
