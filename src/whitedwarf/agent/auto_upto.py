"""Writes `[upto]` for the model where what it copies from a file says enough already (spec/product.md C.5).

Promises: of `Chooser`. At most once per parameter, only at a line end, and only where the model was about to go on with
more text: not with blanks, and not with a closing tag. Which text says enough is for the tool to know.
"""

from whitedwarf.agent.answer_guide import AnswerGuide
from whitedwarf.agent.dialogue import Checks
from whitedwarf.engine.request import SamplingOptions
from whitedwarf.engine.sampler import XorShift64Star, sample
from whitedwarf.model.base import Logits
from whitedwarf.prompt.tokenizer import Tokenizer

MARKER = "[upto]"
MIN_BYTES = 64
MIN_LINES = 2
MAX_BYTES = 16 << 10  # what is longer than this was not meant to be skipped; each line end costs a look at all of it


class AutoUpto:
    """The `Chooser` of the answer that `guide` reads."""

    def __init__(self, tokenizer: Tokenizer, guide: AnswerGuide, checks: Checks, sampling: SamplingOptions) -> None:
        self._tokenizer = tokenizer
        self._guide = guide
        self._checks = checks
        self._sampling = sampling
        self._random = XorShift64Star(sampling.seed)
        self._forced: list[int] = []  # last first
        self._done: set[tuple[int, str]] = set()

    def choose(self, logits: Logits) -> int | None:
        """A token of the marker's line, or none."""
        if self._forced:
            return self._forced.pop()
        parameters = self._guide.parameters
        if not (parameters.parameter and self._guide.ends_line):
            return None
        where = (parameters.index, parameters.parameter)
        if where in self._done or not self._says_enough(where):
            return None
        token = sample(logits, self._sampling, self._random)
        if self._ends_text(token):
            return token
        self._done.add(where)
        self._forced = self._tokenizer.encode(MARKER + "\n")[::-1]
        return self._forced.pop()

    def _says_enough(self, where: tuple[int, str]) -> bool:
        begun = self._guide.value
        size = len(begun.encode())
        if MARKER in begun or size > MAX_BYTES:
            self._done.add(where)
            return False
        if size < MIN_BYTES or _num_lines(begun) < MIN_LINES:
            return False
        complete = dict(self._guide.parameters.complete)
        return self._checks.may_skip(self._guide.tool, self._guide.parameters.parameter, begun, complete)

    def _ends_text(self, token: int) -> bool:
        """Blanks, a control token, or what may begin a closing tag."""
        spelling = self._tokenizer.vocabulary.tokens[token]
        text = self._tokenizer.token_bytes(token).strip()
        return not text or spelling in self._tokenizer.vocabulary.special_ids or text == b"<" or text.startswith(b"</")


def _num_lines(text: str) -> int:
    return sum(1 for line in text.split("\n") if line.strip())
