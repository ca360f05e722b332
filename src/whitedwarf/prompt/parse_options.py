"""What the output parser has to know about the request before the first token arrives."""

from dataclasses import dataclass
from enum import Enum, auto


class ParseStart(Enum):
    """Where in the answer the prompt left off."""

    CONTENT = auto()  # thinking is off
    REASONING = auto()  # the prompt opened <think>
    REASONING_CONTINUED = auto()  # the prompt ends with the beginning of a thought
    CONTENT_CONTINUED = auto()  # the prompt ends with the beginning of the answer: leading newlines count


class ParseMode(Enum):
    """`STRICT` does what DeepSeek's own parser does, mistakes included; `SALVAGE` repairs what models get wrong."""

    STRICT = auto()
    SALVAGE = auto()


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """How to read one answer; `max_call_tokens` ends a call that never ends (P35), None means no limit."""

    mode: ParseMode = ParseMode.SALVAGE
    start: ParseStart = ParseStart.CONTENT
    parse_tool_calls: bool = True
    starts_in_tool_calls: bool = False
    parse_json_output: bool = False
    stop_strings: tuple[str, ...] = ()
    max_call_tokens: int | None = None

    def __post_init__(self) -> None:
        if not all(self.stop_strings):
            raise ValueError("a stop string is empty; expected at least one character: leave it out")
        if self.max_call_tokens is not None and self.max_call_tokens < 1:
            raise ValueError(f"max_call_tokens is {self.max_call_tokens}; expected at least 1, or None for no limit")
