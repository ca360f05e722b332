"""Text such as coding agents send, made up from a seed: prose, code, logs, listings, JSON.

Promises: the same seed gives the same text everywhere; names come back as they do in a project, and new ones keep
coming. Does not know conversations.
"""

import json
import random
import re
from collections.abc import Callable

_SYLLABLES = (
    *("ba", "con", "der", "ex", "fil", "gra", "hand", "in", "jo", "key", "list", "map", "node", "out", "par", "que"),
    *("read", "set", "test", "up", "val", "write", "xml", "yes", "zip"),
)
_PROSE = re.findall(
    r"\w+",
    "the file that we read first has a function which does not check its input so this test fails when the cache "
    "is empty and I should look at how the other callers use it before changing anything in the parser because "
    "every module imports it let me run the tests again now they pass but one of them is slow and prints a "
    "warning about an open socket next step write the missing case and update the documentation of the options",
)
_NEW_NAMES = 0.05  # of all names: the others came before, the earliest most often
_FOREIGN = (
    "这个函数没有检查输入。",
    "ファイルを確認しました。",
    "Größe überprüft — naïve façade",
    "проверка завершена ✅",
)
_VALUES = ("None", "True", "0", "1", "len(items)", "self._lock", '"utf-8"', "f'{name}={value!r}'", "[]", "{}", "0x7fff")
_LEVELS = ("INFO", "DEBUG", "WARNING", "ERROR")


class AgentText:
    """A source of text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._names: list[str] = []

    def name(self) -> str:
        """An identifier; most came before."""
        choose = self.random
        if self._names and choose.random() > _NEW_NAMES:
            return self._names[int(len(self._names) * choose.random() ** 2)]
        words = choose.choices(_SYLLABLES, k=choose.randint(1, 4))
        self._names.append(choose.choice(("_".join, "".join))(words))
        return self._names[-1]

    def path(self) -> str:
        """A file."""
        folders = (self.name() for _ in range(self.random.randint(1, 3)))
        return "/".join(("src", *folders, f"{self.name()}.{self.random.choice(('py', 'ts', 'rs', 'md'))}"))

    def prose(self, num_words: int) -> str:
        """Sentences about the work."""
        words = [self._word() for _ in range(num_words)]
        sentences = [" ".join(words[i : i + 14]).capitalize() + "." for i in range(0, num_words, 14)]
        if self.random.random() < 0.1:
            sentences.append(self.random.choice(_FOREIGN))
        return " ".join(sentences)

    def _word(self) -> str:
        return f"`{self.name()}`" if self.random.random() < 0.08 else self.random.choice(_PROSE)

    def tool_result(self, num_lines: int) -> str:
        """What a tool prints."""
        line: Callable[[int], str] = self.random.choice(
            (self._code, self._code, self._numbered, self._log, self._found)
        )
        return "\n".join(line(number) for number in range(1, num_lines + 1))

    def json(self) -> str:
        """A small document."""
        return json.dumps({self.name(): self.random.randint(0, 99999), self.name(): [self.name(), self.path()]})

    def _code(self, _: int) -> str:
        name, value, depth = self.name(), self.random.choice(_VALUES), "    " * self.random.randint(0, 3)
        match self.random.randint(0, 6):
            case 0:
                return f"\ndef {name}({self.name()}: str, {self.name()}: int = {self.random.randint(0, 4096)}) -> None:"
            case 1:
                return f"{depth}if {name} is not {value}:"
            case 2:
                return f"{depth}return self.{name}.{self.name()}({value}, {self.name()}={value})"
            case 3:
                return f"{depth}# {self.prose(9)}"
            case 4:
                return f'{depth}raise ValueError(f"{name} is {{{self.name()}!r}}; expected {value}")'
            case 5:
                return f"{depth}{name} = [{self.name()} for {self.name()} in {self.name()} if {value}]"
            case _:
                return f"{depth}from {name}.{self.name()} import {self.name()}"

    def _numbered(self, number: int) -> str:
        return f"{number:6}\t{self._code(number).lstrip()}"

    def _log(self, number: int) -> str:
        clock = f"2026-05-{number % 28 + 1:02}T{number % 24:02}:{self.random.randint(0, 59):02}:07.{number:03}Z"
        return f"{clock} {self.random.choice(_LEVELS)} [{self.name()}] {self.prose(8)} {self.json()}"

    def _found(self, _: int) -> str:
        return f"{self.path()}:{self.random.randint(1, 900)}:{self._code(0).strip()}"
