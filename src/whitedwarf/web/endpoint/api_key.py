"""The key to an endpoint, from the environment alone. Promises that its text appears in no message, repr or file."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from whitedwarf.errors import UsageError

_SHORTEST_SECRET = 8  # shorter ones ("none", "x") are placeholders of local servers, and words of any text
_MASK = "[key]"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that a header can carry."""

    secret: str = field(repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """What a request carries."""
        return {"Authorization": f"Bearer {self.secret}"}

    def hide(self, text: str) -> str:
        """`text` without the key: servers like to quote it in their complaints."""
        return text.replace(self.secret, _MASK) if len(self.secret) >= _SHORTEST_SECRET else text

    def hide_bytes(self, data: bytes) -> bytes:
        """The same with bytes."""
        if len(self.secret) < _SHORTEST_SECRET:
            return data
        return data.replace(self.secret.encode(), _MASK.encode())


def find_key(variable: str, environment: Mapping[str, str] = os.environ) -> ApiKey | None:
    """The key of that variable, None without one. UsageError for a text that no header can carry."""
    secret = environment.get(variable, "").strip()
    if not secret:
        return None
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise UsageError(f"{variable} is no key: expected one word such as sk-abc..., without spaces")
    return ApiKey(secret)
