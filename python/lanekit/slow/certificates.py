"""A laboratory's own authority, and the certificates that it signs for its daemons.

The authority's key stays where it was made and signs one certificate for each machine; clients are
given only ``ca.pem``. Keys are of the curve P-256, which every TLS library knows.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lanekit.errors import MissingExtra, TelemetryError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as error:
    raise MissingExtra(
        f"making certificates needs cryptography ({error}): pip install 'lanekit[remote]'"
    ) from error

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 825
"""The longest that every TLS library accepts from an authority of one's own."""
_CLOCK_SKEW = datetime.timedelta(hours=1)
"""Machines whose clocks are behind accept a new certificate, too."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """What was made, and where it is."""

    authority: Path
    """For clients: --tls-ca."""
    certificate: Path
    """For the daemon: --tls-cert."""
    key: Path
    """For the daemon: --tls-key. Readable by its owner only."""
    names: tuple[str, ...]
    """The addresses under which clients may reach the daemon."""
    new_authority: bool


def make_certificates(
    directory: Path, names: Sequence[str] = (), *, label: str = "server", force: bool = False
) -> CertificateFiles:
    """Make an authority in `directory`, or use the one that is there, and sign a certificate.

    It is good for this machine's own names and for `names`: host names and addresses. It goes to
    ``LABEL.pem`` and ``LABEL.key``; one that is there is only replaced with `force`.
    """
    check_label(label)
    certificate_path, key_path = directory / f"{label}.pem", directory / f"{label}.key"
    every_name = tuple(dict.fromkeys((*own_names(), *names)))
    alternatives = [general_name(name) for name in every_name]
    for path in (certificate_path, key_path):
        if path.exists() and not force:
            raise TelemetryError(
                f"{path} is there already: --force makes a new one, --label another beside it"
            )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, authority_key, is_new = _authority(directory)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_named(f"lanekit daemon {label}"), authority.subject, key, CERTIFICATE_DAYS)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_identifier_of(authority_key), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    _write_key(key_path, key)
    _write(certificate_path, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return CertificateFiles(directory / "ca.pem", certificate_path, key_path, every_name, is_new)


def own_names() -> list[str]:
    """Return the names that this machine gives itself."""
    given = [name for name in (socket.gethostname(), socket.getfqdn()) if _is_name(name)]
    return ["localhost", "127.0.0.1", "::1", *given]


def general_name(text: str) -> x509.GeneralName:
    """Return a host name or an address as certificates hold it; ValueError for anything else."""
    try:
        return x509.IPAddress(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        pass
    if not _is_name(text):
        raise ValueError(f"{text!r} is neither a host name nor an IP address")
    return x509.DNSName(text)


def check_label(label: str) -> None:
    """Raise ValueError for what can not name a file beside the authority's own."""
    safe = label.replace("-", "").replace("_", "").replace(".", "")
    if not safe.isascii() or not safe.isalnum() or label.startswith((".", "-")) or label == "ca":
        raise ValueError(f"a label has letters, digits, - _ and . inside, and is not ca: {label!r}")


def _is_name(text: str) -> bool:
    labels = text.removeprefix("*.").split(".")
    return text.isascii() and all(
        0 < len(label) < 64 and label.replace("-", "").replace("_", "").isalnum()
        for label in labels
    )


def _authority(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey, bool]:
    certificate_path, key_path = directory / "ca.pem", directory / "ca.key"
    if certificate_path.exists() or key_path.exists():
        return *_read_authority(certificate_path, key_path), False
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named(f"lanekit authority of {socket.gethostname()}")
    certificate = (
        _builder(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_key(key_path, key)
    _write(certificate_path, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return certificate, key, True


def _read_authority(
    certificate_path: Path, key_path: Path
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise TelemetryError(
            f"the authority in {certificate_path.parent} can not be used ({error}): "
            "ca.pem and ca.key go together; without them begin in another directory"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or (
        certificate.public_key() != key.public_key()
    ):
        raise TelemetryError(f"{key_path} is not the key of {certificate_path}")
    return certificate, key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _identifier_of(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    _write(path, pem, 0o600)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file that is never, not even for a moment, more readable than it should be."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(beside, path)


def describe(files: CertificateFiles) -> Iterable[str]:
    """Say, a line each, what is to be done with what was made."""
    made = "an authority, and a certificate" if files.new_authority else "a certificate"
    yield f"made {made} for {', '.join(files.names)}"
    yield f"  {files.authority}  give it to every client"
    yield f"  {files.certificate}  {files.key}  for the daemon"
