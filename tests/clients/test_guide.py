"""docs/clients.md says nothing that is not run: what no agent's test runs is run here."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.agents import AGENTS, PATIENCE_S, VARIANTS
from clients.guide import DOCUMENT, Block, Section, packages, sections, serve_flags
from clients.server_process import ServerProcess, serving

LIBRARIES = "The openai and anthropic libraries"
SMALL = ("llm", "litellm", "aider")
FILE = "hello.py\n```\nprint('Hello.')\n```\n"


@pytest.fixture
def binaries(request: pytest.FixtureRequest, clients: Path) -> Path:
    """Of the small client that is the test's parameter; asked for before a server is started."""
    found = clients / request.getfixturevalue("name") / "bin"
    if not found.exists():
        pytest.skip(f"there is no virtual environment {found.parent} ($WHITEDWARF_CLIENTS)")
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    answer = {"pieces": ["It asks.", {"special": "</think>"}, FILE]}
    with serving(tmp_path, [answer], *serve_flags()) as server:
        yield server


def test_every_block_is_run_by_a_test() -> None:
    found = sections()
    assert {title for title in found if found[title].blocks} == {
        "",
        *(agent.title for agent in AGENTS),
        *("curl", LIBRARIES),
        *SMALL,
    }
    text = DOCUMENT.read_text()
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * sum(len(section.blocks) for section in found.values())
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^ {4}.*", outside, re.MULTILINE) == []


def test_every_agent_has_a_package() -> None:
    assert packages().keys() == {agent.title for agent in AGENTS}


def test_what_is_said_to_be_written_instead_is_what_the_tests_write() -> None:
    for agent in VARIANTS:
        section = sections()[agent.title]
        prose = re.sub(r"^```.*?^```", "", section.prose, flags=re.MULTILINE | re.DOTALL)
        for _, new in agent.swaps:
            assert f"`{new}`" in prose


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_gets_answers(server: ServerProcess, tmp_path: Path) -> None:
    (script,) = sections()["curl"].scripts
    printed = _run(script, server, tmp_path)
    assert '"content":"hello.py' in printed
    assert "event: message_stop" in printed


@pytest.mark.slow
def test_the_libraries_get_answers(server: ServerProcess, tmp_path: Path) -> None:
    openai, anthropic = sections()[LIBRARIES].scripts
    assert _run(openai, server, tmp_path).count(FILE) == 2
    assert "hello.py" in _run(anthropic, server, tmp_path)


@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_small_clients_get_answers(name: str, binaries: Path, server: ServerProcess, tmp_path: Path) -> None:
    section = sections()[name]
    (script,) = section.scripts
    _write_files(section, server, tmp_path)
    printed = _run(script, server, tmp_path, binaries)
    if name == "aider":
        assert (tmp_path / "hello.py").read_text() == "print('Hello.')\n"
    else:
        assert "print('Hello.')" in printed


def _run(block: Block, server: ServerProcess, home: Path, binaries: Path | None = None) -> str:
    """What the block prints; it must succeed."""
    program = ["bash", "-ec"] if block.language == "sh" else ["python" if binaries else sys.executable, "-c"]
    path = os.environ["PATH"] if binaries is None else f"{binaries}:{os.environ['PATH']}"
    ended = subprocess.run(
        [*program, block.at(server.url)],
        cwd=home,
        env={"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
    return ended.stdout


def _write_files(section: Section, server: ServerProcess, home: Path) -> None:
    for path, block in section.files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(block.at(server.url))
