"""The key to an endpoint, from the environment alone. Promises that its text appears in no message, repr or file."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from whitedwarf.errors import UsageError

KEY_VARIABLE = "DEEPSEEK_API_KEY"
_SHORTEST_SECRET = 8  # shorter ones ("none", "x") are placeholders of local servers, and words of any text
_MASK = "[key]"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that a header can carry."""

    secret: str = field(repr=False)

    def hide(self, text: str) -> str:
        """`text` without the key: servers like to quote it in their complaints."""
        return text.replace(self.secret, _MASK) if len(self.secret) >= _SHORTEST_SECRET else text

    def hide_bytes(self, data: bytes) -> bytes:
        """The same with bytes."""
        if len(self.secret) < _SHORTEST_SECRET:
            return data
        return data.replace(self.secret.encode(), _MASK.encode())


def find_key(environment: Mapping[str, str] = os.environ) -> ApiKey | None:
    """The key of the environment, None without one. UsageError for a text that no header can carry."""
    secret = environment.get(KEY_VARIABLE, "").strip()
    if not secret:
        return None
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise UsageError(f"{KEY_VARIABLE} is no key: expected one word such as sk-abc..., without spaces")
    return ApiKey(secret)
