"""A script file to what the scripted engine plays: JSON lines of text, control tokens and bytes, compiled to ids.

    {"pieces": ["Hi ", {"bytes": "f09f"}, {"bytes": "a694"}, {"special": "</think>"}],
     "finish": "stop", "prefill_s": 0, "delay_ms": 0}

One line for each request, the last again and again; only `pieces` has to be there. `delay_ms` passes before every
piece. Promises: every complaint names the file, the line, what was expected and what came; text never becomes a control
token, whatever it spells. Does not know HTTP or engines at work.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.engine.request import FinishReason
from whitedwarf.engine.script import ENDINGS, ScriptedAnswer
from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.prompt.vocabulary import BYTE_OF

PieceIds: TypeAlias = tuple[int, ...]

_MEMBERS = ("pieces", "finish", "prefill_s", "delay_ms")
_A_PIECE = 'a string, {"special": "…"} or {"bytes": "…"}'
_SHOWN_CHARACTERS = 80
MAX_DURATION = 1_000_000_000  # of seconds or of milliseconds: nobody waits longer


@dataclass(frozen=True, slots=True)
class ScriptWords:
    """What turns a script's pieces into ids: a tokenizer's three talents, and the token that ends an answer."""

    encode: Callable[[str], Iterable[int]]
    special_ids: Mapping[str, int]  # by spelling
    byte_ids: tuple[int, ...]  # of the 256 bytes
    stop_id: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "ScriptWords":
        """Raises FileFormatError for a vocabulary without an end-of-sentence token."""
        vocabulary = tokenizer.vocabulary
        by_byte = {byte: vocabulary.text_ids[character] for character, byte in BYTE_OF.items()}
        stop_id = tokenizer.special_id(SpecialToken.EOS)
        return cls(tokenizer.encode, vocabulary.special_ids, tuple(by_byte[byte] for byte in range(256)), stop_id)


def read_script(path: Path, words: ScriptWords) -> tuple[ScriptedAnswer, ...]:
    """Compile a script file; FileFormatError where it is none or cannot be read."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise FileFormatError(f"{path}: the script cannot be read: {error.strerror}") from error
    return compile_script(lines, words, str(path))


def compile_script(lines: Iterable[bytes], words: ScriptWords, name: str = "script") -> tuple[ScriptedAnswer, ...]:
    """Compile lines, of which blank ones are skipped; FileFormatError names `name` and the line, counted from 1."""
    answers = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                answers.append(_answer(_object(line), words))
            except _LineError as error:
                raise FileFormatError(f"{name}, line {number}: {error}") from None
    if not answers:
        raise FileFormatError(f'{name}: expected at least one line, such as {{"pieces": ["Hello"]}}; it has none')
    return tuple(answers)


class _LineError(Exception):
    """What is wrong with a line, without its place."""


def _object(line: bytes) -> dict[str, Json]:
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise _LineError(f"expected a JSON object, got what is no JSON ({error})") from error
    if not isinstance(value, dict):
        raise _LineError(f"expected a JSON object, got {_shown(value)}")
    unknown = [key for key in value if key not in _MEMBERS]
    if unknown:
        raise _LineError(f"expected no other members than {', '.join(_MEMBERS)}, got {_shown(unknown[0])}")
    return value


def _answer(line: dict[str, Json], words: ScriptWords) -> ScriptedAnswer:
    pieces = line.get("pieces")
    if not isinstance(pieces, list):
        raise _LineError(f'expected "pieces" to be an array of pieces ({_A_PIECE}), got {_given(line, "pieces")}')
    ending = _ending(line)
    return ScriptedAnswer(
        pieces=tuple(_piece(piece, number, words) for number, piece in enumerate(pieces, 1)),
        ending=ending,
        stop_id=words.stop_id if ending is FinishReason.STOP else None,
        prefill_s=_duration(line, "prefill_s"),
        delay_s=_duration(line, "delay_ms") / 1000,
    )


def _piece(piece: Json, number: int, words: ScriptWords) -> PieceIds:
    match piece:
        case str():
            return tuple(words.encode(_text(piece, number)))
        case {"special": str(spelling), **others} if not others:
            return (_special_id(spelling, number, words),)
        case {"bytes": str(digits), **others} if not others:
            return tuple(words.byte_ids[byte] for byte in _bytes(digits, number))
    raise _LineError(f"piece {number}: expected {_A_PIECE}, got {_shown(piece)}")


def _text(text: str, number: int) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _LineError(
            f'piece {number}: expected text, got half a surrogate pair in {_shown(text)}; use {{"bytes": "…"}} '
            "for what is no text"
        ) from None
    return text


def _special_id(spelling: str, number: int, words: ScriptWords) -> int:
    if spelling not in words.special_ids:
        known = ", ".join(token for token in SpecialToken if token in words.special_ids)
        raise _LineError(f"piece {number}: expected a control token such as {known}, got {_shown(spelling)}")
    return words.special_ids[spelling]


def _bytes(digits: str, number: int) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise _LineError(
            f'piece {number}: expected "bytes" as pairs of hexadecimal digits such as "f09f", got {_shown(digits)}'
        ) from None


def _ending(line: dict[str, Json]) -> FinishReason:
    finish = line.get("finish", FinishReason.STOP.value)
    for ending in ENDINGS:
        if finish == ending.value:
            return ending
    raise _LineError(f'expected "finish" to be "stop" or "length", got {_shown(finish)}')


def _duration(line: dict[str, Json], name: str) -> float:
    value = line.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_DURATION:
        raise _LineError(f'expected "{name}" to be a number from 0 to {MAX_DURATION}, got {_shown(value)}')
    return float(value)


def _given(line: dict[str, Json], name: str) -> str:
    return _shown(line[name]) if name in line else "none"


def _shown(value: Json) -> str:
    """A value as JSON, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
