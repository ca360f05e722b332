"""The file that names MCP servers, in the usual form: `{"mcpServers": {NAME: {"command", "args", "env", "cwd"} or
{"url", "headers"}}}`.

`${VARIABLE}` in a value is taken from the environment, so that no secret has to stand in the file. Promises: every
complaint is a UsageError that names the file, the server, what was expected and what came, and quotes no value.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whitedwarf.agent.guarded_files import NotAFileError, read_file
from whitedwarf.errors import UsageError
from whitedwarf.web.endpoint.address import checked_address

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LARGEST = 1 << 20  # bytes
_SHORTEST_SECRET = 8  # characters; shorter values are words of any text


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server: a command to run, or a url. Values of `environment` and `headers` may be secrets."""

    name: str
    command: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def hide(self, text: str) -> str:
        """`text` without any of its secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "[secret]")
        return text


def read_mcp_config(path: Path, environment: Mapping[str, str] = os.environ) -> tuple[McpServer, ...]:
    """The servers of a file that are not disabled."""
    try:
        data, version = read_file(path, _LARGEST)
    except NotAFileError as error:
        raise UsageError(f"--mcp-config {path}: expected a file, got {error.kind}") from error
    except OSError as error:
        raise UsageError(f"--mcp-config {path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"--mcp-config {str(path)!r}: cannot be read: {error}") from error
    if len(data) > _LARGEST:
        raise UsageError(f"--mcp-config {path}: expected at most {_LARGEST} bytes, got {version.size_bytes}")
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--mcp-config {path}: expected JSON: {error}") from error
    servers = value.get("mcpServers") if isinstance(value, dict) else None
    if not isinstance(servers, dict):
        raise UsageError(f'--mcp-config {path}: expected an object with "mcpServers", an object of servers by name')
    read = [_server(name, entry, f"--mcp-config {path}: {name!a}", environment) for name, entry in servers.items()]
    return tuple(server for server in read if server is not None)


def _server(name: str, entry: Any, place: str, environment: Mapping[str, str]) -> McpServer | None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{place}: expected a name of 1 to 32 letters, digits, _ and -")
    if not isinstance(entry, dict) or ("command" in entry) == ("url" in entry):
        raise UsageError(f'{place}: expected an object with either "command" or "url"')
    if entry.get("disabled") is True:
        return None
    values = _Values(place, environment)
    server_environment, headers = values.texts(entry, "env"), values.texts(entry, "headers")
    url = values.text(entry, "url")
    if url:
        checked_address(url.partition("?")[0], f"{place}: url", "http://127.0.0.1:8001/mcp", '"headers"')
    return McpServer(
        name,
        values.text(entry, "command"),
        values.list(entry, "args"),
        server_environment,
        values.text(entry, "cwd") or None,
        url,
        headers,
        _secrets([*server_environment.values(), *headers.values(), *values.taken, url.partition("?")[2]]),
    )


def _secrets(values: list[str]) -> tuple[str, ...]:
    words = {word for value in values for word in (value, *value.split()) if len(word) >= _SHORTEST_SECRET}
    return tuple(sorted(words, key=len, reverse=True))


class _Values:
    """Members of one server's entry, with variables filled in; `taken` are their values."""

    def __init__(self, place: str, environment: Mapping[str, str]) -> None:
        self.taken: list[str] = []
        self._place = place
        self._environment = environment

    def text(self, entry: Mapping[str, Any], key: str) -> str:
        value = entry.get(key, "")
        if not isinstance(value, str) or (key in entry and not value):
            raise UsageError(f"{self._place}: expected {key} to be a string that is not empty")
        return self._filled(value)

    def list(self, entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = entry.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise UsageError(f"{self._place}: expected {key} to be a list of strings")
        return tuple(map(self._filled, value))

    def texts(self, entry: Mapping[str, Any], key: str) -> dict[str, str]:
        value = entry.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise UsageError(f"{self._place}: expected {key} to be an object of strings")
        return {name: self._filled(item) for name, item in value.items()}

    def _filled(self, text: str) -> str:
        return _VARIABLE.sub(self._variable, text)

    def _variable(self, match: re.Match[str]) -> str:
        name = match[1]
        if name not in self._environment:
            raise UsageError(f"{self._place}: there is no variable {name} in the environment; set it, or leave it out")
        self.taken.append(self._environment[name])
        return self._environment[name]
