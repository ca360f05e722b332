"""How another server is asked: its address, the key, the model's name, and further members of each request."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from whitedwarf.errors import UsageError

CHAT = "/chat/completions"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """`base` is the address up to and with /v1, or what stands there. `extra`: members of requests, None takes away."""

    base: str
    key: str | None = field(default=None, repr=False)
    model: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        """Of every request."""
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}


def server_options(
    url: str,
    key_variable: str | None,
    model: str | None,
    extra: str | None,
    environment: Mapping[str, str] = os.environ,
) -> ServerOptions:
    """From the options of the command line; UsageError for what makes no sense."""
    return ServerOptions(_base(url), _key(key_variable, environment), model, _extra(extra))


def _base(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise UsageError(f"--url {url}: expected an address such as http://127.0.0.1:8000 or https://example.com/v1")
    if parts.username is not None or parts.password is not None:
        raise UsageError("--url: a key does not belong into the address; name its variable with --api-key-env")
    path = parts.path.rstrip("/").removesuffix(CHAT).rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path or "/v1", "", ""))


def _key(variable: str | None, environment: Mapping[str, str]) -> str | None:
    if variable is None:
        return None
    key = environment.get(variable, "").strip()
    if not key:
        raise UsageError(f"--api-key-env {variable}: there is no such variable in the environment, or it is empty")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"--api-key-env {variable}: its value is no key; expected printable ASCII characters")
    return key


def _extra(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--extra-body: expected a JSON object; it is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise UsageError(f"--extra-body: expected a JSON object, got {text[:60]}")
    if "stream" in value or "messages" in value:
        raise UsageError("--extra-body: the messages and the stream are the exam's own; leave them out")
    return value
