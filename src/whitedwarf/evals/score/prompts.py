"""Prompts to collect continuations for: of our own, or from a user's file or folder.

A folder has a prompt in each *.txt file, named by its id. A `.jsonl` file has JSON on each line, a text or an object
with `prompt` and, if it likes, `id`; any other file is text with a prompt on each line, # for comments.
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.score.case_files import check_different, check_id
from whitedwarf.evals.score.long_prompts import long_prompts
from whitedwarf.evals.text_file import json_lines, read_text

_EXPECTED = 'expected a text or an object such as {"id": "capital", "prompt": "What is the capital of Chad?"}'


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the user says, and the case's name."""

    id: str
    text: str


def built_in_prompts() -> list[Prompt]:
    """Ours: facts, code, reasoning, several languages, JSON, texts to work on, and long ones, mixed."""
    text = (files("whitedwarf.evals.score") / "prompts.jsonl").read_text(encoding="utf-8")
    short = [_from_json(json.loads(line), "prompts.jsonl", number) for number, line in enumerate(text.splitlines(), 1)]
    long = [Prompt(name, text) for name, text in long_prompts()]
    every = len(short) // len(long)  # so that any --count has some of each kind
    groups = [[*short[i * every : (i + 1) * every], prompt] for i, prompt in enumerate(long)]
    return [prompt for group in groups for prompt in group] + short[len(long) * every :]


def read_prompts(path: Path) -> list[Prompt]:
    """At least one; FileFormatError names the line."""
    if path.is_dir():
        prompts = [_of_file(file) for file in sorted(path.glob("*.txt"))]
    elif path.suffix.lower() in (".jsonl", ".ndjson"):
        prompts = [_from_json(value, str(path), number) for number, value in json_lines(path, _EXPECTED)]
    else:
        lines = [line.strip() for line in read_text(path).split("\n") if line.strip() and not line.startswith("#")]
        prompts = [Prompt(f"p{number:04d}", line) for number, line in enumerate(lines, 1)]
    if not prompts:
        what = "*.txt file" if path.is_dir() else "prompt"
        raise FileFormatError(f"{path}: expected at least one {what}, found none")
    check_different((prompt.id for prompt in prompts), str(path))
    return prompts


def _of_file(file: Path) -> Prompt:
    text = read_text(file)
    if not text.strip():
        raise FileFormatError(f"{file} is empty; expected a prompt")
    return Prompt(check_id(file.stem, str(file)), text)


def _from_json(value: Any, file: str, number: int) -> Prompt:
    where = f"{file}, line {number}"
    members = {"prompt": value} if isinstance(value, str) else value
    if not isinstance(members, dict) or not isinstance(members.get("prompt"), str) or not members["prompt"].strip():
        raise FileFormatError(f"{where}: {_EXPECTED}")
    if unknown := sorted(members.keys() - {"id", "prompt"}):
        raise FileFormatError(f"{where}: unknown member {unknown[0]!r}; {_EXPECTED}")
    case_id = members.get("id", f"p{number:04d}")
    if not isinstance(case_id, str):
        raise FileFormatError(f"{where}: 'id' is not a text")
    try:
        members["prompt"].encode()
    except UnicodeEncodeError as error:
        raise FileFormatError(f"{where}: the prompt has half of a surrogate pair; expected whole characters") from error
    return Prompt(check_id(case_id, where), members["prompt"])
