"""What the road from a request to its prompt remembers: an agent sends its tools and its history again every turn.

Promises: the same results as without it, for each entry is found by all that it depends on, told apart to the last
bit; bounded; may be shared between threads. Does not know what stands in a request: who asks says what that depends on.
"""

import marshal
import sys
from collections.abc import Callable, Hashable
from typing import Any

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt.bounded_cache import BoundedCache
from whitedwarf.prompt.passage import Passage

DEFAULT_CAPACITY_BYTES = 64 << 20  # of each kind; of passages some fifty histories of 100,000 tokens
_MARSHALLED_TIMES = 4  # what a JSON value takes as Python objects, in times of its marshalled bytes
_WITHOUT_REFERENCES = 2  # marshal's format in which equal values are equal bytes


class Same:
    """A key that only the very same object finds, which it keeps alive."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value


def spelt_out(value: Json) -> bytes | None:
    """A key for a JSON value, which equality would not do for: 1, 1.0 and true are equal, and so are objects in another
    order. None for what is nested too deeply."""
    given: Any = value
    try:
        return marshal.dumps(given, _WITHOUT_REFERENCES)
    except ValueError:
        return None


class RecipeMemory:
    """Passages of prompts, definitions of tools, and texts about those."""

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self.passages: BoundedCache[Hashable, Passage] = BoundedCache(capacity_bytes, _passage_bytes)
        self.definitions: BoundedCache[bytes, tuple[ToolDefinition, ...]] = BoundedCache(capacity_bytes, _tools_bytes)
        self.tool_texts: BoundedCache[tuple[Same, Hashable], str] = BoundedCache(capacity_bytes, _text_bytes)

    def tools(self, key: Json, define: Callable[[], tuple[ToolDefinition, ...]]) -> tuple[ToolDefinition, ...]:
        """The definitions that `define` gives; `key` is all that they depend on."""
        spelt = spelt_out(key)
        return define() if spelt is None else self.definitions.recall(spelt, define)

    def tool_text(self, tools: tuple[ToolDefinition, ...], use: Hashable, make: Callable[[], str]) -> str:
        """What is written of these very tools for that use."""
        return self.tool_texts.recall((Same(tools), use), make)

    def clear(self) -> None:
        """Forget everything, as after a start."""
        self.passages.clear()
        self.definitions.clear()
        self.tool_texts.clear()


def _passage_bytes(key: Hashable, passage: Passage) -> int:
    return 2 * passage.size_bytes  # the messages of the key say what the passage says, but for the markup


def _tools_bytes(key: bytes, tools: tuple[ToolDefinition, ...]) -> int:
    return (1 + _MARSHALLED_TIMES) * len(key)


def _text_bytes(key: tuple[Same, Hashable], text: str) -> int:
    return (1 + _MARSHALLED_TIMES) * sys.getsizeof(text)  # it keeps the tools alive, which say the same
