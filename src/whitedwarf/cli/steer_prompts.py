"""Prompts of the steering tools: a file with one on each line, to the token ids of chats.

A `.jsonl` file has JSON on each line, a text or an object with `prompt` and, if it likes, `system` and `behaviour`; any
other file is text, in which lines that begin with # and empty ones say nothing.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whitedwarf.cli.oneshot import prompt_ids
from whitedwarf.cli.prompt_text import read_text
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.tokenizer import Tokenizer

_MEMBERS = frozenset({"prompt", "system", "behaviour"})
_EXPECTED = 'expected a text or an object such as {"prompt": "What is 2+2?"}'


@dataclass(frozen=True, slots=True)
class SteerPrompt:
    """What the user says; None where the line leaves it to the command."""

    text: str
    system: str | None = None
    behaviour: str | None = None

    def ids(self, tokenizer: Tokenizer, system: str, thinking: Thinking) -> list[int]:
        """Up to where the answer begins."""
        own = system if self.system is None else self.system
        return prompt_ids(tokenizer, self.text, own, thinking)


def read_prompts(path: Path) -> list[SteerPrompt]:
    """At least one; FileFormatError names the line."""
    text = read_text(str(path)).removeprefix("\N{BYTE ORDER MARK}")
    lines = enumerate(text.split("\n"), 1)
    is_json = path.suffix.lower() in (".jsonl", ".ndjson")
    prompts = list(_json_prompts(lines, path) if is_json else _text_prompts(lines))
    if not prompts:
        raise FileFormatError(f"{path}: expected at least one prompt, found none")
    return prompts


def _text_prompts(lines: Iterator[tuple[int, str]]) -> Iterator[SteerPrompt]:
    for _, line in lines:
        if line.strip() and not line.startswith("#"):
            yield SteerPrompt(line.strip())


def _json_prompts(lines: Iterator[tuple[int, str]], path: Path) -> Iterator[SteerPrompt]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(f"{path}, line {number}: {_EXPECTED}; it is not JSON ({error})") from error
        yield _prompt_of(value, f"{path}, line {number}")


def _prompt_of(value: Any, where: str) -> SteerPrompt:
    members = {"prompt": value} if isinstance(value, str) else value
    if not isinstance(members, dict) or not isinstance(members.get("prompt"), str):
        raise FileFormatError(f"{where}: {_EXPECTED}")
    unknown = sorted(members.keys() - _MEMBERS)
    if unknown:
        raise FileFormatError(f"{where}: unknown member {unknown[0]!r}; expected some of {sorted(_MEMBERS)}")
    wrong = [name for name, text in members.items() if not isinstance(text, str)]
    if wrong:
        raise FileFormatError(f"{where}: {wrong[0]!r} is not a text")
    return SteerPrompt(members["prompt"], members.get("system"), members.get("behaviour"))
