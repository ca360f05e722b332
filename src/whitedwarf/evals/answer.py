"""One answer while it comes: a target writes it, the exam grades it, displays look on.

Promises: `output` is every byte the model said, in order, with `</think>` where its thoughts closed, whatever part of a
character has come so far; what was said before a new attempt is gone.
"""

from collections.abc import Callable
from dataclasses import dataclass

from whitedwarf.evals.budget import NOT_CLOSED, ThinkClose
from whitedwarf.evals.extract import THINK_CLOSE
from whitedwarf.evals.grade import ThinkMode


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text to show, not empty, and whether it is a thought."""

    text: str
    is_thinking: bool


class Answer:
    """`watch` is called with each piece, and with None for any other news; it has to be quick."""

    def __init__(self, watch: Callable[[Piece | None], None] = lambda piece: None) -> None:
        self._watch = watch
        self.think_mode: ThinkMode = "none"  # what the model really does, not what was asked
        self.prompt_tokens = 0
        self.read_tokens = 0  # of the prompt, so far
        self.generated_tokens = 0
        self.num_attempts = 1
        self.trouble = ""  # why there was more than one attempt
        self._begin()

    def _begin(self) -> None:
        self.output = bytearray()
        self.pieces: list[Piece] = []
        self.closed: ThinkClose = NOT_CLOSED  # known by the time that the answer is over
        self.is_cut = False  # the tokens were used up before the answer was over

    @property
    def text(self) -> str:
        """What was said so far."""
        return self.output.decode("utf-8", "replace")

    @property
    def has_begun(self) -> bool:
        """Whether the model has said anything."""
        return bool(self.output)

    def read(self, done_tokens: int, total_tokens: int) -> None:
        """So much of the prompt has been read."""
        self.read_tokens, self.prompt_tokens = done_tokens, total_tokens
        self._watch(None)

    def say(self, raw: bytes, text: str, *, is_thinking: bool) -> None:
        """The model said this; `text` is what can be shown of it by now."""
        self.output += raw
        if text:
            piece = Piece(text, is_thinking)
            self.pieces.append(piece)
            self._watch(piece)

    def close_thoughts(self) -> None:
        """The thoughts ended here."""
        self.output += THINK_CLOSE.encode()
        self._watch(None)

    def again(self, trouble: str) -> None:
        """It failed and is asked for once more."""
        self._begin()
        self.generated_tokens = 0
        self.num_attempts += 1
        self.trouble = trouble
        self._watch(None)
