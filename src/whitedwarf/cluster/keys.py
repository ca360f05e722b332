"""Keys of a cluster: an authority of its own, and a certificate for each machine.

Everybody who shows a certificate of the authority may do everything in the cluster, nobody else gets as far as a first
message: there are no further roles, and no names are compared, as machines are called by their addresses.
Promises: private keys are never readable by others, not for a moment, and nothing that is there is overwritten.
Elliptic curve P-256; a member's certificate is valid for two years unless told otherwise, the authority's for ten.
"""

import os
import re
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from whitedwarf.cluster.key_folder import MAKE_THEM, KeyFolder, read_certificate
from whitedwarf.errors import UsageError

AUTHORITY_DAYS = 3650
MEMBER_DAYS = 730
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
_CLOCKS_DIFFER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """Who signs for a cluster."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, now: datetime | None = None) -> "Authority":
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("whitedwarf cluster")
        dates = _Dates.of(AUTHORITY_DAYS, now)
        builder = dates.builder(name, name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(_key_id(key), critical=False)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def read(cls, folder: KeyFolder) -> "Authority":
        """UsageError where the folder is not the one in which the cluster's keys were made."""
        try:
            key = load_pem_private_key(folder.authority_key.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(
                f"{folder.authority_key}: expected the authority's private key; {error}; add machines in the folder "
                f"that `whitedwarf cluster keys` made first"
            ) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise UsageError(f"{folder.authority_key}: expected a key on an elliptic curve; {MAKE_THEM}")
        return cls(read_certificate(folder.authority), key)

    def issue(self, folder: KeyFolder, name: str, days: int = MEMBER_DAYS, now: datetime | None = None) -> None:
        """Write a member's three files into a folder that may not have them yet; UsageError where it has."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _Dates.of(days, now).builder(_name(name), self.certificate.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        builder = builder.add_extension(_key_id(key), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        certificate = builder.add_extension(issuer, critical=False).sign(self.key, hashes.SHA256())
        _write_new(folder.key, _private(key))
        _write_new(folder.certificate, certificate.public_bytes(Encoding.PEM))
        if not folder.authority.exists():
            _write_new(folder.authority, self.certificate.public_bytes(Encoding.PEM))


def make_keys(folder: Path, days: int = MEMBER_DAYS) -> KeyFolder:
    """A new authority in a folder, and a certificate for this machine; UsageError where keys are already."""
    keys = KeyFolder(folder)
    if keys.authority.exists():
        raise UsageError(f"{folder} has keys already: --add NAME makes some for another machine")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = Authority.make()
    _write_new(keys.authority_key, _private(authority.key))
    authority.issue(keys, _this_machine(), days)
    return keys


def add_keys(folder: Path, name: str, days: int = MEMBER_DAYS) -> KeyFolder:
    """A folder `name` in the folder of the authority, to be carried to another machine; UsageError where it is."""
    check_name(name)
    authority = Authority.read(KeyFolder(folder))
    keys = KeyFolder(folder / name)
    if keys.folder.exists():
        raise UsageError(f"{keys.folder} is there already: take another name, or remove it")
    keys.folder.mkdir(mode=0o700)
    authority.issue(keys, name, days)
    return keys


def check_name(name: str) -> None:
    """UsageError for what could not be a machine's name, and so might be a path."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise UsageError(f"--add {name}: expected a machine's name of letters, digits, dots and hyphens")


@dataclass(frozen=True, slots=True)
class _Dates:
    """From when to when."""

    first: datetime
    last: datetime

    @classmethod
    def of(cls, days: int, now: datetime | None) -> "_Dates":
        now = now or datetime.now(UTC)
        return cls(now - _CLOCKS_DIFFER, now + timedelta(days=days))

    def builder(self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(self.first).not_valid_after(self.last)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _this_machine() -> str:
    name = socket.gethostname()
    return name if _NAME.fullmatch(name) else "member"


def _key_id(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write_new(path: Path, data: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise UsageError(f"{path} is there already and is not overwritten: take another folder") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
