"""How another server is asked: its address, the key, the model's name, and further members of each request."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlunsplit

from whitedwarf.errors import UsageError
from whitedwarf.web.endpoint.address import CHAT_PATH, checked_address
from whitedwarf.web.endpoint.api_key import ApiKey, find_key


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """`base` is the address up to and with /v1, or what stands there. `extra`: members of requests, None takes away."""

    base: str
    key: ApiKey | None = None
    model: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        """Of every request."""
        return {} if self.key is None else self.key.headers

    def hidden(self, text: str) -> str:
        """`text` without the key."""
        return text if self.key is None else self.key.hide(text)


def server_options(
    url: str,
    key_variable: str | None,
    model: str | None,
    extra: str | None,
    environment: Mapping[str, str] = os.environ,
) -> ServerOptions:
    """From the options of the command line; UsageError for what makes no sense."""
    return ServerOptions(_base(url), _key(key_variable, environment), _model(model), _extra(extra))


def _base(url: str) -> str:
    parts = checked_address(url, "--url", "http://127.0.0.1:8000", "the variable that --api-key-env names")
    path = parts.path.rstrip("/").removesuffix(CHAT_PATH).rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path or "/v1", "", ""))


def _key(variable: str | None, environment: Mapping[str, str]) -> ApiKey | None:
    if variable is None:
        return None
    try:
        key = find_key(variable, environment)
    except UsageError as error:
        raise UsageError(f"--api-key-env {error}") from error
    if key is None:
        raise UsageError(f"--api-key-env {variable}: there is no such variable in the environment, or it is empty")
    return key


def _model(name: str | None) -> str | None:
    if name is not None and not _is_sendable(name):
        raise UsageError(f"--model {name!a}: expected a name in UTF-8")
    return name


def _is_sendable(value: object) -> bool:
    """Whether there are whole characters and finite numbers only."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:  # also UnicodeEncodeError
        return False
    return True


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
        raise UsageError("--extra-body: the messages and the stream are ours to say; leave them out")
    if not _is_sendable(value):
        raise UsageError("--extra-body: it has half of a surrogate pair or a number without end; JSON has neither")
    return value
