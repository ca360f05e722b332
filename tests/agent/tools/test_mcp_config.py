"""The file that names MCP servers: read as others write it, refused with the reason, secrets kept out of messages."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whitedwarf.agent.tools.mcp_arguments import fitted
from whitedwarf.agent.tools.mcp_config import read_mcp_config
from whitedwarf.agent.tools.mcp_results import MOST_CHARACTERS, result_text
from whitedwarf.agent.tools.mcp_servers import McpServers, definition
from whitedwarf.errors import ConversationError, UsageError


def write(folder: Path, value: Any) -> Path:
    path = folder / "mcp.json"
    path.write_text(value if isinstance(value, str) else json.dumps({"mcpServers": value}))
    return path


def test_servers_are_read_with_variables_filled_in(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {
            "files": {"command": "npx", "args": ["-y", "${PACKAGE}"], "env": {"TOKEN": "${KEY}"}, "cwd": "/tmp"},
            "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
            "off": {"command": "x", "disabled": True},
        },
    )
    files, web = read_mcp_config(path, {"KEY": "sk-12345678", "PACKAGE": "some-package"})
    assert (files.command, files.arguments, files.folder) == ("npx", ("-y", "some-package"), "/tmp")
    assert files.environment == {"TOKEN": "sk-12345678"}
    assert web.headers == {"Authorization": "Bearer sk-12345678"}
    for server in (files, web):
        assert "sk-12345678" not in server.hide("your key sk-12345678 is wrong")
        assert "sk-12345678" not in repr(server)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{", "expected JSON"),
        ("[]", "mcpServers"),
        ({"a b": {"command": "x"}}, "letters"),
        ({"a": {}}, "either"),
        ({"a": {"command": "x", "url": "http://h"}}, "either"),
        ({"a": {"command": ""}}, "not empty"),
        ({"a": {"command": 5}}, "a string"),
        ({"a": {"command": "x", "args": "y"}}, "list of strings"),
        ({"a": {"command": "x", "env": {"A": 1}}}, "object of strings"),
        ({"a": {"command": "x", "env": {"A": "${NOT_THERE}"}}}, "no variable NOT_THERE"),
        ({"a": {"url": "ftp://example.com"}}, "expected an address"),
        ({"a": {"url": "http://me:hunter2@example.com/mcp"}}, "expected an address"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, value: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_mcp_config(write(tmp_path, value), {})
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "mcp.json" in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_mcp_config(tmp_path / "none.json")


def test_results_become_text() -> None:
    parts = [
        SimpleNamespace(type="text", text="hello"),
        SimpleNamespace(type="audio", mime_type="audio/wav", data="AAAA"),
        SimpleNamespace(type="resource", resource=SimpleNamespace(uri="file:///a", text="inside")),
        SimpleNamespace(type="resource", resource=SimpleNamespace(uri="file:///b", blob="AAAA")),
        SimpleNamespace(type="resource_link", uri="file:///c"),
        SimpleNamespace(type="hologram"),
    ]
    text = result_text(parts, None)
    assert text.splitlines() == [
        "hello",
        "[audio, audio/wav, 3 bytes: cannot be shown as text]",
        "[file:///a]",
        "inside",
        "[file:///b: no text]",
        "[file:///c]",
        "[a part of an unknown kind: hologram]",
    ]
    assert result_text([], {"a": 1}) == '{"a": 1}'
    assert result_text([], None) == "(no output)"
    assert len(result_text([SimpleNamespace(type="text", text="x" * 300_000)], None)) < MOST_CHARACTERS + 100


def test_arguments_written_as_strings_become_what_the_schema_says() -> None:
    types = {"i": "integer", "n": "number", "b": "boolean", "a": "array", "o": "object", "s": "string"}
    schema = {"properties": {name: {"type": kind} for name, kind in types.items()}}
    given = {"i": "2", "n": "2.5", "b": "True", "a": "[1]", "o": '{"x": 1}', "s": "2", "other": "3"}
    fitting = {"i": 2, "n": 2.5, "b": True, "a": [1], "o": {"x": 1}, "s": "2", "other": "3"}
    assert fitted(given, schema) == fitting
    stays = {"i": "2.5", "n": "true", "b": "1", "a": "{}", "o": "[", "s": "x"}
    assert fitted(stays, schema) == stays
    assert fitted({"i": "2"}, None) == {"i": "2"}
    assert fitted({"i": "2"}, {"properties": {"i": {"type": ["integer", "null"]}}}) == {"i": "2"}


def test_tools_that_no_model_can_call_are_refused() -> None:
    good = SimpleNamespace(name="get", description="x" * 9000, input_schema={"type": "object"})
    assert len(definition("s", good).description or "") == 4000
    for name in ("", "a b", "x" * 80, "ü", "a\n"):
        with pytest.raises(ValueError, match="left out"):
            definition("s", SimpleNamespace(name=name, description=None, input_schema={}))
    with pytest.raises(ConversationError):
        definition("s", SimpleNamespace(name="get", description=None, input_schema={"a": float("nan")}))


def test_what_is_no_file_is_neither_waited_for_nor_read_without_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "a\0b"):
        with pytest.raises(UsageError, match="--mcp-config"):
            read_mcp_config(path, {})
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="expected at most"):
        read_mcp_config(large, {})


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"-m pip install mcp, or leave --mcp-config out"):
        McpServers([], lambda text: None)
