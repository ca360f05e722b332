"""A chat as token ids: what was said is kept as it was, so that each turn only adds to what the engine already knows.

Promises: equal turns give equal ids; changing how hard the model thinks changes only the opening. Pure: no engine.
"""

from dataclasses import dataclass, field

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import SystemMessage
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.prompt.encode_v4 import answer_start, opening, user_turn
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer


@dataclass(slots=True)
class Transcript:
    """The turns so far, all closed; a turn is asked with `prompt` and kept with `add`."""

    tokenizer: Tokenizer
    system: str
    thinking: Thinking
    _turns: list[int] = field(default_factory=list)

    def prompt(self, text: str) -> list[int]:
        """Everything so far and what the user says now, up to where the model answers."""
        return self.tokenizer.encode_segments(opening(self._beginning())) + self._turns + self._asked(text)

    def add(self, text: str, answer_ids: tuple[int, ...]) -> None:
        """Keep a turn, its answer as generated (also if it was cut off), closed by end-of-sentence."""
        self._turns += [*self._asked(text), *answer_ids, self.tokenizer.special_id(SpecialToken.EOS)]

    def _asked(self, text: str) -> list[int]:
        return self.tokenizer.encode_segments(user_turn(text) + answer_start(is_thinking=self.thinking.is_on))

    def _beginning(self) -> Conversation:
        thinking = self.thinking
        return Conversation((SystemMessage(self.system),), is_thinking=thinking.is_on, reasoning_effort=thinking.effort)
