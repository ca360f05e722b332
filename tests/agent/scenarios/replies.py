"""What a scripted model says, in the pieces of a script file (server/script.py): words, thoughts, and calls by tags.

Written out here rather than by prompt/dsml.py, so that the one is a check of the other; V4 and V4.1 differ in the tags.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whitedwarf.conversation.json_value import Json
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.script import ScriptWords, compile_script

Piece = str | dict[str, str]
Part = Piece | Callable[[ModelVersion], Sequence[Piece]]
"""A piece, or what depends on the version."""

DSML: Piece = {"special": "｜DSML｜"}
THOUGHT_ENDS: Piece = {"special": "</think>"}
_TAGS = {
    ModelVersion.V4: {"calls": "tool_calls", "invoke": "invoke", "parameter": "parameter"},
    ModelVersion.V41: {"calls": " calls", "invoke": " invoke", "parameter": " parameter"},
}


@dataclass(frozen=True)
class Reply:
    """One answer of the model, a line of the script."""

    parts: tuple[Part, ...]
    finish: str = "stop"
    delay_ms: float = 0
    prefill_s: float = 0

    def line(self, version: ModelVersion) -> bytes:
        pieces: list[Piece] = []
        for part in self.parts:
            pieces += part(version) if callable(part) else [part]
        times = {"prefill_s": self.prefill_s, "delay_ms": self.delay_ms}
        return json.dumps({"pieces": pieces, "finish": self.finish, **times}).encode()


@dataclass(frozen=True)
class Invocation:
    """One call: its name, and its parameters as they are written, with the `string` attribute."""

    name: str
    parameters: tuple[tuple[str, str, bool], ...] = ()

    def pieces(self, version: ModelVersion) -> list[Piece]:
        made = [*tag("invoke", f' name="{self.name}"')(version), "\n"]
        for name, value, is_string in self.parameters:
            attributes = f' name="{name}" string="{"true" if is_string else "false"}"'
            made += [*tag("parameter", attributes)(version), *([value] if value else [])]
            made += [*end_tag("parameter")(version), "\n"]
        return [*made, *end_tag("invoke")(version), "\n"]


def says(*parts: Part, finish: str = "stop", delay_ms: float = 0, prefill_s: float = 0) -> Reply:
    return Reply(parts, finish, delay_ms, prefill_s)


def calls(*invocations: Invocation, delay_ms: float = 0, prefill_s: float = 0) -> Reply:
    """An answer that is a block of calls, and nothing else."""
    return Reply((block(*invocations),), "stop", delay_ms, prefill_s)


def call(name: str, **parameters: Json) -> Invocation:
    """Strings as they are, everything else as JSON."""
    written = ((key, value if isinstance(value, str) else json.dumps(value)) for key, value in parameters.items())
    return Invocation(name, tuple((key, text, isinstance(parameters[key], str)) for key, text in written))


def block(*invocations: Invocation) -> Part:
    """A whole block of calls, with the empty line before it."""

    def pieces(version: ModelVersion) -> list[Piece]:
        inner = [piece for invocation in invocations for piece in invocation.pieces(version)]
        return ["\n\n", *tag("calls")(version), "\n", *inner, *end_tag("calls")(version)]

    return pieces


def tag(name: str, attributes: str = "") -> Callable[[ModelVersion], list[Piece]]:
    """An opening tag: of "calls", "invoke" or "parameter"."""
    return lambda version: ["<", DSML, f"{_TAGS[version][name]}{attributes}>"]


def end_tag(name: str) -> Callable[[ModelVersion], list[Piece]]:
    return lambda version: ["</", DSML, f"{_TAGS[version][name]}>"]


def begun(name: str, parameter: str = "", value: str = "", **complete: str) -> Part:
    """A block of calls as far as the middle of a parameter's value, or of a call without one; never closed."""

    def pieces(version: ModelVersion) -> list[Piece]:
        whole = call(name, **complete).pieces(version)[:-4]  # without the end of the call
        opened = [*tag("parameter", f' name="{parameter}" string="true"')(version), value] if parameter else []
        return ["\n\n", *tag("calls")(version), "\n", *whole, *opened]

    return pieces


def slowly(text: str) -> Part:
    """Word by word: with `delay_ms`, there is time before each."""
    return lambda version: [word + " " for word in text.split()]


def compiled(script: Sequence[Reply], version: ModelVersion, tokenizer: Tokenizer) -> tuple[ScriptedAnswer, ...]:
    return compile_script([reply.line(version) for reply in script], ScriptWords.of(tokenizer))
