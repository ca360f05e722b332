"""The folder of keys that a process of a cluster shows the others, and what is wrong with it.

`ca.pem` says whom to trust, `member.pem` and `member.key` who we are. Promises: a folder that would not be believed
by others, or that others on this machine could read, is refused here with what to do, before any connection.
"""

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from whitedwarf.errors import UsageError

MAKE_THEM = "`whitedwarf cluster keys DIR` makes keys"


@dataclass(frozen=True, slots=True)
class KeyFolder:
    """Paths of the three files; `authority_key` is where the cluster's own key lies in the folder it was made in."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def authority_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def certificate(self) -> Path:
        return self.folder / "member.pem"

    @property
    def key(self) -> Path:
        return self.folder / "member.key"

    def check(self, now: datetime | None = None) -> None:
        """UsageError unless all is there, private, of this time, and the certificate is the authority's."""
        for path in (self.authority, self.certificate, self.key):
            if not path.is_file():
                raise UsageError(f"--cluster-keys {self.folder}: expected {path.name} in it; {MAKE_THEM}")
        _check_private(self.key)
        authority, certificate = read_certificate(self.authority), read_certificate(self.certificate)
        for found, path in ((authority, self.authority), (certificate, self.certificate)):
            _check_dates(found, path, now or datetime.now(UTC))
        try:
            certificate.verify_directly_issued_by(authority)
        except Exception as error:  # ValueError, TypeError or InvalidSignature: each means another authority
            raise UsageError(
                f"{self.certificate} was not made by the authority of {self.authority}: take both from one folder that "
                "`whitedwarf cluster keys` made"
            ) from error


def read_certificate(path: Path) -> x509.Certificate:
    """UsageError for anything but a certificate in PEM form."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: expected a certificate; {error}; {MAKE_THEM}") from error


def _check_dates(certificate: x509.Certificate, path: Path, now: datetime) -> None:
    if now > certificate.not_valid_after_utc:
        raise UsageError(
            f"{path} expired on {certificate.not_valid_after_utc:%Y-%m-%d}: make new with `whitedwarf cluster keys`"
        )
    if now < certificate.not_valid_before_utc:
        raise UsageError(
            f"{path} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on, here it is "
            f"{now:%Y-%m-%d %H:%M} UTC: set this machine's clock"
        )


def _check_private(path: Path) -> None:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise UsageError(f"{path}: others on this machine may read it; chmod 600 {path}")
