"""docs/clients.md as something to run: its blocks of text, as they are printed.

A block that follows a line like "`~/.codex/config.toml`:" is that file; a block of `sh` or `python` is run. Only what
every reader puts in its place is changed here: the address, and what the agent is asked.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "clients.md"
PRINTED_ADDRESS = "http://127.0.0.1:8000"
_PRINTED_PROMPT = '"Find the star."'
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"(?:^`~/([^`\n]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PACKAGE = re.compile(r"^\| ([^|]+) \| `(\S+)` \|", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences; `path` below the home folder if it is a file."""

    language: str
    text: str
    path: str | None

    def at(self, url: str) -> str:
        """With our server's address in place of the printed one."""
        return self.text.replace(PRINTED_ADDRESS, url)


@dataclass(frozen=True, slots=True)
class Section:
    """One client's part of the document; the text before the first heading is the section of no title."""

    title: str
    prose: str
    blocks: tuple[Block, ...]

    @property
    def files(self) -> dict[str, Block]:
        return {block.path: block for block in self.blocks if block.path is not None}

    @property
    def scripts(self) -> list[Block]:
        """What is to be run."""
        return [block for block in self.blocks if block.path is None]


def sections() -> dict[str, Section]:
    """By title."""
    parts = _HEADING.split(DOCUMENT.read_text())
    titled = zip(["", *parts[1::2]], parts[::2], strict=True)
    return {title: Section(title, text, tuple(_blocks(text))) for title, text in titled}


def serve_flags() -> list[str]:
    """How the document starts the server, but for the port."""
    (block,) = sections()[""].scripts
    program, command, *flags = shlex.split(block.text)
    assert (program, command) == ("whitedwarf", "serve")
    port = flags.index("--port")
    return flags[:port] + flags[port + 2 :]


def packages() -> dict[str, str]:
    """npm's name and version of each client in the table, by its title."""
    return {title.strip(): package for title, package in _PACKAGE.findall(DOCUMENT.read_text())}


def with_prompt(script: str, prompt: str = '"$PROMPT"') -> str:
    """The command with something else in place of the printed prompt; as a shell word, by default a variable."""
    assert script.count(_PRINTED_PROMPT) == 1, script
    return script.replace(_PRINTED_PROMPT, prompt)


def _blocks(text: str) -> list[Block]:
    return [Block(language, body, path or None) for path, language, body in _BLOCK.findall(text)]
