"""Makes native/character_ranges.h: the Unicode classes that Hugging Face's regular expressions know.

Token ids depend on their Unicode version, and Python's own is another; so the tokenizers library is asked, with one
`Split` for each class. Run it when tests/prompt/test_byte_pairs.py says that the library has moved on.
"""

import itertools
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import tokenizers
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

TARGET = Path(__file__).resolve().parents[1] / "native" / "character_ranges.h"
WIDTH = 118
KINDS = {
    "kLetter": r"[\p{L}\p{M}]",
    "kSign": r"[\p{P}\p{S}]",
    "kNumber": r"\p{N}",
    "kLineEnd": r"[\r\n]",
    "kBlank": r"[^\S\r\n]",
}
HEAD = """\
// Made by scripts/make_character_ranges.py from tokenizers {version}; not to be edited.
#pragma once

#include "characters.h"

namespace whitedwarf {{

struct CharacterRange {{
    uint32_t first, last;
    uint8_t kind;
}};

constexpr CharacterRange kCharacterRanges[] = {{
"""
TAIL = "};\n\n}  // namespace whitedwarf\n"


def code_points(pattern: str) -> set[int]:
    """Those whose character the expression matches."""
    characters = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) != "Cs"]
    rest = Split(Regex(pattern), "removed").pre_tokenize_str("".join(characters))
    return set(map(ord, characters)) - {ord(character) for piece, _ in rest for character in piece}


def ranges(codes: set[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run."""
    for _, run in itertools.groupby(enumerate(sorted(codes)), key=lambda pair: pair[1] - pair[0]):
        members = [code for _, code in run]
        yield members[0], members[-1]


def rows(entries: list[str]) -> Iterator[str]:
    """Entries in lines that are not too long."""
    line = "   "
    for entry in entries:
        if len(line) + len(entry) + 2 > WIDTH:
            yield line
            line = "   "
        line += f" {entry},"
    yield line


def header() -> str:
    """The whole file."""
    classes = {kind: code_points(pattern) for kind, pattern in KINDS.items()}
    assert sum(map(len, classes.values())) == len(set().union(*classes.values())), "classes overlap"
    lines = [HEAD.format(version=tokenizers.__version__).rstrip("\n")]
    for kind, codes in classes.items():
        lines += rows([f"{{{first:#x}, {last:#x}, {kind}}}" for first, last in ranges(codes)])
    return "\n".join(lines) + "\n" + TAIL


if __name__ == "__main__":
    TARGET.write_text(header(), encoding="utf-8")
