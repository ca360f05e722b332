"""What earlier requests left behind, so that the next prompt begins with what the model's state already holds.

    completed      results that come alone get the conversation they belong to; calls get the model's own words
    ids_of         the prompt's ids, with every earlier answer in the tokens that were drawn
    remember       an answer, for both

Promises: a prompt's text differs from the official one only by the model's own words for its calls, and by thoughts
before calls that the client left out; nothing depends on it but speed and what the model sees of those. Bounded, may be
shared between threads. Spec: product.md B.11, B.12.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Protocol

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage
from whitedwarf.prompt.adoption import Reading, continued
from whitedwarf.prompt.rendered import Prompt
from whitedwarf.prompt.sampled_answers import SampledAnswers
from whitedwarf.prompt.tokenizer import Ids, Tokenizer
from whitedwarf.protocol.call_memory import MAX_IDS, CallMemory
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.recalled import Recalled
from whitedwarf.protocol.turn_memory import TurnMemory


class SavedPrompts(Protocol):
    """What an earlier server wrote down; asked from any thread, and it never raises."""

    def spoken(self, text: bytes) -> Iterator[Ids]:
        """The tokens of saved prefixes that spell what `text` begins with, longest first."""

    def blocks(self, call_ids: Set[str]) -> Mapping[str, bytes]:
        """What the model wrote for these tool calls, as far as it is known."""


@dataclass(frozen=True, slots=True, eq=False)
class PromptIds:
    """A prompt as the tokenizer has it, and as it is run; the same text, which takes about `text_bytes` in memory."""

    canonical: Ids
    run: Ids
    text_bytes: int


class Past:
    """Of one model. `saved` may be set before the first request; no calls are remembered with `max_call_ids` 0."""

    def __init__(self, tokenizer: Tokenizer, max_call_ids: int = MAX_IDS) -> None:
        self.saved: SavedPrompts | None = None
        self._tokenizer = tokenizer
        self._answers = SampledAnswers(tokenizer)
        self._calls = CallMemory(self._saved_blocks, max_call_ids)
        self._turns = TurnMemory()

    def completed(self, converted: Converted[Any]) -> tuple[Converted[Any], Recalled]:
        """The request with what it leaves to us. LostTurn for results of calls that nobody knows."""
        conversation, parsing = self._turns.completed(converted.conversation), converted.parsing
        if conversation is not converted.conversation:
            parsing = replace(parsing, parse_tool_calls=conversation.offers_tools)
        messages, recalled = self._calls.recalled(conversation.messages)
        conversation = replace(conversation, messages=messages)
        return replace(converted, conversation=conversation, parsing=parsing), recalled

    def ids_of(self, prompt: Prompt) -> PromptIds:
        """The prompt's ids."""
        canonical = self._tokenizer.encode_prompt(prompt)
        if self.saved is not None and not self._answers.knows(canonical):
            self._read_saved(self.saved, canonical)
        return PromptIds(canonical, self._answers.adopt(canonical), prompt.size_bytes)

    def remember(self, asked: Conversation, ids: PromptIds, answer: Sequence[int], said: AssistantMessage) -> None:
        """The model drew `answer` after `ids`, and clients were told that it `said` this. Quick."""
        self._answers.remember(ids.canonical, answer)
        self._calls.remember(said)
        self._turns.remember(asked, said, ids.text_bytes)

    def remember_cut(self, ids: PromptIds, answer: Sequence[int]) -> None:
        """The same of an answer to which nobody listened to the end. Quick."""
        self._answers.remember(ids.canonical, answer)

    def blocks_in(self, text: bytes) -> Mapping[str, bytes]:
        """The model's words for calls that this text spells, by the ids of the calls."""
        return self._calls.blocks_in(text)

    def _saved_blocks(self, call_ids: Set[str]) -> Mapping[str, bytes]:
        return {} if self.saved is None else self.saved.blocks(call_ids)

    def _read_saved(self, saved: SavedPrompts, canonical: Ids) -> None:
        """Learn how the answers in this prompt were drawn from the longest saved state that begins it."""
        reading = Reading.of(canonical, self._tokenizer)
        for held in saved.spoken(reading.text):
            if (ids := continued(reading, held, self._tokenizer)) is not None:
                self._answers.learn(canonical, ids)
                return
