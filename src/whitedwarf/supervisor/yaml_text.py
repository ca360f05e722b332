"""Values as YAML that every parser reads back the same, whatever is in their texts.

Block style; a text is plain only where no parser could take it for anything else, and in double quotes otherwise.
"""

import json
import re
from collections.abc import Iterator

from whitedwarf.supervisor.jsonc import Json

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?:[ ][A-Za-z0-9_./-]+)*|https?://[A-Za-z0-9_./:-]*[A-Za-z0-9_/]")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}  # something else to some parser
_SPECIAL = re.compile("[^\\x20-\\x7e\\xa0-\\u1fff\\u2030-\\u205f\\u2070-\\ud7ff\\uf900-\\ufefe\\uff00-\\uffef]")
STEP = 2


def yaml_text(value: Json, indent: int = 0) -> str:
    """An object or a list, as lines that begin with this many blanks."""
    return "".join(f"{' ' * indent}{line}\n" for line in _lines(value))


def _lines(value: Json) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _after(f"{_scalar(name)}:", member, STEP)
    elif isinstance(value, list) and value:
        for item in value:
            lines = _lines(item)
            yield f"- {next(lines)}"
            yield from (f"  {line}" for line in lines)
    else:
        yield _scalar(value)


def _after(name: str, member: Json, step: int) -> Iterator[str]:
    if isinstance(member, dict | list) and member:
        yield name
        yield from (f"{' ' * step}{line}" for line in _lines(member))
    else:
        yield f"{name} {_scalar(member)}"


def _scalar(value: Json) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.1f}"
    return json.dumps(value)  # {} and [] too


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return _SPECIAL.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
