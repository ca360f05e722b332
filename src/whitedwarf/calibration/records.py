"""The corpus: which kinds of conversations there are, how many of each, and the record of a given number.

Promises: a record depends on seed, number, categories and thinking modes alone, so a longer corpus begins with a
shorter one; the same bytes on every machine. All texts were written for this project.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from whitedwarf.calibration import talks
from whitedwarf.calibration.agent import agent_replay
from whitedwarf.calibration.dataset import checked
from whitedwarf.calibration.dice import Dice
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import SpecialToken

ThinkModes: TypeAlias = Literal["both", "on", "off"]

# How many of a hundred records each kind has.
SHARES: Mapping[str, int] = {
    "agent": 28,
    "code": 18,
    "prose": 12,
    "chat": 12,
    "translation": 8,
    "maths": 8,
    "data": 8,
    "needle": 6,
}
EFFORTS: Mapping[ReasoningEffort | None, int] = {
    None: 60,
    ReasoningEffort.HIGH: 20,
    ReasoningEffort.LOW: 10,
    ReasoningEffort.MAX: 10,
}
_MAKERS: Mapping[str, Callable[[Dice, bool], Conversation]] = {
    "agent": agent_replay,
    "code": talks.code,
    "prose": talks.prose,
    "chat": talks.chat,
    "translation": talks.translation,
    "maths": talks.maths,
    "data": talks.data,
    "needle": talks.search,
}
CATEGORIES = tuple(SHARES)


@dataclass(frozen=True, slots=True)
class Record:
    """One conversation with its number and kind."""

    number: int
    category: str
    conversation: Conversation

    @property
    def mode(self) -> str:
        return "think" if self.conversation.is_thinking else "nothink"


def records(
    count: int, seed: int, categories: Sequence[str] = CATEGORIES, think: ThinkModes = "both"
) -> Iterator[Record]:
    """The first `count`. In each hundred, kinds come as often as their shares say; half of each kind thinks."""
    shares = {category: SHARES[category] for category in CATEGORIES if category in categories}
    deck: list[tuple[str, bool]] = []
    for number in range(count):
        if not deck:
            deck = _deck(Dice("deck", seed, number), shares, think)
        category, is_thinking = deck.pop()
        dice = Dice("record", seed, number, category)
        conversation = _MAKERS[category](dice, is_thinking)
        effort = dice.weighted(EFFORTS) if is_thinking else None
        yield Record(number, category, replace(conversation, reasoning_effort=effort))


def _deck(dice: Dice, shares: Mapping[str, int], think: ThinkModes) -> list[tuple[str, bool]]:
    cards = []
    for category, share in shares.items():
        modes = {"both": (True, False), "on": (True,), "off": (False,)}[think]
        cards += [(category, modes[n % len(modes)]) for n in range(share)]
    return dice.shuffled(cards)


def rendered(record: Record, version: ModelVersion) -> str:
    """The prompt of that version and the last answer as the model gives it: with its thought, up to the end.

    ValueError for what a file of rendered prompts would misread.
    """
    *earlier, answer = record.conversation.messages
    if not isinstance(answer, AssistantMessage):
        raise ValueError(f"record {record.number} does not end with an answer")
    given = replace(record.conversation, messages=(*earlier, replace(answer, is_prefix=True)))
    segments = [*encode(given, version).segments, Control(SpecialToken.EOS)]
    return "".join(_spelt(segment) for segment in checked(segments))


def _spelt(segment: Segment) -> str:
    return segment.text if isinstance(segment, Text) else segment.token.value
