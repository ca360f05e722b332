"""How the processes of a cluster prove who they are: dask's TLS with our keys, or, if asked for, nothing at all.

Promises: both ends of every connection show a certificate of our authority before a first byte of either is read as a
message, so nothing is unpickled for strangers. The certificates that the system trusts count for nothing here.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed.security import Security

from whitedwarf.cluster.key_folder import MAKE_THEM, KeyFolder
from whitedwarf.errors import UsageError


@dataclass(frozen=True, slots=True)
class Trust:
    """Keys, or None for plaintext."""

    keys: KeyFolder | None

    @classmethod
    def of(cls, folder: Path | None, *, is_plaintext: bool) -> "Trust":
        """UsageError unless exactly one of the two was asked for, and for keys that nobody would believe."""
        if folder is not None and is_plaintext:
            raise UsageError("--plaintext and --cluster-keys contradict each other: give one")
        if folder is None and not is_plaintext:
            raise UsageError(
                f"a cluster needs --cluster-keys DIR; {MAKE_THEM}. --plaintext goes without: then everybody who "
                "reaches the ports can run programs as you"
            )
        if folder is None:
            return cls(None)
        keys = KeyFolder(folder)
        keys.check()
        return cls(keys)

    @property
    def scheme(self) -> str:
        """Of addresses."""
        return "tcp" if self.keys is None else "tls"

    def address(self, host: str, port: int) -> str:
        """As dask writes it."""
        return f"{self.scheme}://[{host}]:{port}" if ":" in host else f"{self.scheme}://{host}:{port}"

    def security(self) -> Security:
        """For all three roles of dask alike."""
        if self.keys is None:
            return Security(require_encryption=False)
        roles = ("scheduler", "worker", "client")
        certificates = {f"tls_{role}_cert": str(self.keys.certificate) for role in roles}
        keys = {f"tls_{role}_key": str(self.keys.key) for role in roles}
        return Security(
            require_encryption=True,
            tls_ca_file=str(self.keys.authority),
            tls_min_version=ssl.TLSVersion.TLSv1_3,
            **certificates,
            **keys,
        )

    def connection_args(self) -> dict[str, Any]:
        """What dask's `connect` wants to know."""
        args: dict[str, Any] = self.security().get_connection_args("client")
        return args
