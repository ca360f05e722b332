"""The model's own words for its tool calls, by the ids that clients know the calls by (spec/product.md B.11).

A client sends calls back as JSON, from which the model's exact words cannot be told: another order of members, other
blanks, other escapes. With the words themselves the next prompt begins with what the model's state already holds. So it
is with thoughts that a client does not send back, which the model should still see while it works with tools.

Promises: words are given back only where the client sends back the calls that they made, none added, left out or
changed; ids are looked up in memory, then once in what an earlier server saved; bounded. May be shared between threads.
Does not know how a prompt is written.
"""

import hashlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from whitedwarf.conversation.events import ToolCallFinished
from whitedwarf.conversation.message import AssistantMessage, Message
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.prompt.same_arguments import same_arguments
from whitedwarf.prompt.spoken_block import Words, blocks_in, says_only_calls, spelt, words_of
from whitedwarf.protocol.recalled import Recalled

MAX_IDS = 100_000
MAX_BYTES = 512 << 20
MAX_UNKNOWN = 20_000
LONGEST_SAVED_ID = 256
"""No file has longer ones, and what clients make up is remembered as unknown."""
_TIMES_AS_LONG = 2  # what a client sends may be, so that it is kept: more blanks than a printer of JSON adds are not
_DIGEST_BYTES = 16
_ENTRY_BYTES = 700  # of an answer's own objects and its places in the dictionaries

SavedBlocks = Callable[[Set[str]], Mapping[str, bytes]]
"""Blocks by call id, of those ids that some file knows."""


@dataclass(eq=False, slots=True)
class _Spoken:
    """One answer with calls; `accepted` are the arguments that a client sent for them last, if not too long."""

    ids: tuple[str, ...]
    names: tuple[str, ...]
    arguments: tuple[str, ...]
    words: Words
    reasoning: str | None
    is_from_disk: bool
    accepted: tuple[str, ...] = ()
    size_bytes: int = field(init=False)  # at first: a text grows when somebody asks for its UTF-8

    def __post_init__(self) -> None:
        arguments = self.arguments * (1 + _TIMES_AS_LONG)
        texts = (*self.ids, *self.names, *self.words, *arguments, self.reasoning or "")
        self.size_bytes = _ENTRY_BYTES + sum(map(sys.getsizeof, texts))

    def makes(self, calls: Sequence[ToolCall]) -> bool:
        """Whether these are its calls."""
        if len(calls) != len(self.names) or any(map(str.__ne__, (call.name for call in calls), self.names)):
            return False
        given = tuple([call.arguments for call in calls])
        if given in (self.accepted, self.arguments):
            return True
        if not all(map(same_arguments, given, self.arguments)):
            return False
        if _num_characters(given) <= _TIMES_AS_LONG * _num_characters(self.arguments):
            self.accepted = given
        return True


class CallMemory:
    """`saved` looks up what an earlier server wrote down."""

    def __init__(self, saved: SavedBlocks | None = None, max_ids: int = MAX_IDS, max_bytes: int = MAX_BYTES) -> None:
        self._saved = saved
        self._max_ids = max_ids
        self._max_bytes = max_bytes
        self._lock = threading.Lock()  # guards everything below
        self._by_id: dict[str, _Spoken] = {}
        self._by_block: dict[bytes, list[_Spoken]] = {}  # by digest
        self._latest: OrderedDict[_Spoken, None] = OrderedDict()  # the next to go first
        self._size_bytes = 0
        self._unknown: OrderedDict[str, None] = OrderedDict()  # asked of the files in vain

    def remember(self, said: AssistantMessage) -> None:
        """The model said this; nothing to remember where its own words are not known."""
        calls = said.tool_calls or ()
        if said.spoken_calls is None or not calls:
            return
        ids, names, arguments = zip(*((call.id, call.name, call.arguments) for call in calls), strict=True)
        self._keep(_Spoken(ids, names, arguments, said.spoken_calls, said.reasoning, is_from_disk=False))

    def recalled(self, messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], Recalled]:
        """The same messages with the words of the model where they are known, and how often that was."""
        answers = [message for message in messages if isinstance(message, AssistantMessage) and message.tool_calls]
        if not answers:
            return messages, Recalled()
        self._look_up({call.id for answer in answers for call in answer.tool_calls or ()})
        counts = {"from_memory": 0, "from_disk": 0, "rewritten": 0, "unknown": 0}
        replaced = [self._with_words(message, counts) for message in messages]
        return tuple(replaced), Recalled(**counts)

    def blocks_in(self, text: bytes) -> dict[str, bytes]:
        """The blocks that this text spells, by the id of each of their calls: what a file keeps beside it."""
        digests = dict.fromkeys(map(_digest, blocks_in(text)))  # a long text takes a while, and others need the lock
        with self._lock:
            spoken = [one for digest in digests for one in self._by_block.get(digest, ())]
        return {call_id: spelt(one.words) for one in spoken for call_id in one.ids}

    def _with_words(self, message: Message, counts: dict[str, int]) -> Message:
        if not isinstance(message, AssistantMessage) or not message.tool_calls:
            return message
        ids = [call.id for call in message.tool_calls]
        spoken = self._spoken(ids)
        if spoken is None or not spoken.makes(message.tool_calls):
            counts["rewritten"] += len(ids)
            counts["unknown"] += sum(call_id not in self._by_id for call_id in ids)
            return message
        counts["from_disk" if spoken.is_from_disk else "from_memory"] += len(ids)
        forgets = message.reasoning == "" and spoken.reasoning
        return replace(
            message,
            spoken_calls=spoken.words,
            reasoning=spoken.reasoning if forgets else message.reasoning,
        )

    def _spoken(self, ids: Iterable[str]) -> _Spoken | None:
        """The answer that made all of these calls."""
        with self._lock:
            found = {self._by_id.get(call_id) for call_id in ids}
            if len(found) != 1 or (spoken := found.pop()) is None:
                return None
            self._latest.move_to_end(spoken)
            return spoken

    def _look_up(self, ids: Set[str]) -> None:
        """Ask the files for what is not in memory, once."""
        if self._saved is None:
            return
        with self._lock:
            wanted = {one for one in ids if len(one) <= LONGEST_SAVED_ID and not self._was_looked_up(one)}
        if not wanted:
            return
        found = self._saved(wanted)
        ids_of: dict[bytes, list[str]] = {}
        for call_id, block in found.items():
            ids_of.setdefault(block, []).append(call_id)
        for block, its_ids in ids_of.items():
            self._keep_saved(tuple(its_ids), block)
        with self._lock:
            self._unknown |= dict.fromkeys([one for one in wanted if one not in self._by_id])
            while len(self._unknown) > MAX_UNKNOWN:
                self._unknown.popitem(last=False)

    def _was_looked_up(self, call_id: str) -> bool:
        return call_id in self._by_id or call_id in self._unknown

    def _keep_saved(self, ids: tuple[str, ...], block: bytes) -> None:
        """A file's word is taken for calls alone: what else stands in a block would be read as said by the model."""
        words = words_of(block)
        calls = [] if words is None or not says_only_calls(words) else _calls_of(block)
        if words is not None and calls:
            names, arguments = zip(*((call.name, call.arguments) for call in calls), strict=True)
            self._keep(_Spoken(ids, names, arguments, words, None, is_from_disk=True))

    def _keep(self, spoken: _Spoken) -> None:
        with self._lock:
            self._latest[spoken] = None
            self._size_bytes += spoken.size_bytes
            self._by_id |= dict.fromkeys(spoken.ids, spoken)
            self._by_block.setdefault(_block_of(spoken), []).append(spoken)
            while self._latest and (len(self._by_id) > self._max_ids or self._size_bytes > self._max_bytes):
                self._drop(self._latest.popitem(last=False)[0])

    def _drop(self, spoken: _Spoken) -> None:
        self._size_bytes -= spoken.size_bytes
        for call_id in spoken.ids:
            if self._by_id.get(call_id) is spoken:
                del self._by_id[call_id]
        block = _block_of(spoken)
        self._by_block[block].remove(spoken)
        if not self._by_block[block]:
            del self._by_block[block]


def _block_of(spoken: _Spoken) -> bytes:
    """The digest of its block from the first tag on."""
    return _digest(spelt(spoken.words).lstrip())


def _digest(block: bytes) -> bytes:
    return hashlib.blake2b(block, digest_size=_DIGEST_BYTES).digest()


def _num_characters(arguments: Sequence[str]) -> int:
    return sum(map(len, arguments))


def _calls_of(block: bytes) -> list[ToolCallFinished]:
    parser = OutputParser(ParseOptions())
    events = parser.feed_text(block.decode()) + parser.finish()
    return [event for event in events if isinstance(event, ToolCallFinished)]
