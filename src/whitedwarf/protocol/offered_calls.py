"""Holds calls to their grammar in an answer that may also be words: strict tools, and one call where one was asked for.

Promises: of `Guide`. Words and thoughts are free; from the control token of a block's opening tag on, only tokens come
that go on in the grammar, which names offered tools only. A control token that opens nothing changes nothing.
"""

from collections.abc import Sequence

from whitedwarf.engine.guide import Course, Mask
from whitedwarf.prompt.grammar import Grammar, Matcher
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.stretch import Position
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.call_guide import CallGuide

_OVER = Course(is_over=True)


class OfferedCalls:
    """The `Guide` of one answer; `grammar` begins behind the control token of the opening tag."""

    def __init__(self, calls: CallGuide, grammar: Grammar, tokenizer: Tokenizer) -> None:
        self._calls = calls
        self._grammar = grammar
        self._tokenizer = tokenizer
        self._mark = tokenizer.special_id(SpecialToken.DSML)
        self._matcher: Matcher | None = None
        self._is_behind_bracket = False
        self._is_asked = False

    @property
    def course(self) -> Course:
        """As the calls have it."""
        return self._calls.course

    def mask(self) -> Mask | None:
        """In a call what the grammar allows next."""
        self._is_asked = True
        return None if self._matcher is None else self._matcher.mask()

    def forced(self) -> Sequence[int]:
        """What the grammar has next, whatever is drawn."""
        return () if self._matcher is None else self._matcher.forced()

    def accept(self, token: int) -> Course:
        """This token was drawn. RuntimeError where the mask forbade it; who never asked for a mask may say anything."""
        was_outside = self._calls.position is Position.OUTSIDE
        course = self._calls.accept(token)
        if self._matcher is not None:
            return self._followed(self._matcher, token, course)
        if token == self._mark and was_outside and self._is_behind_bracket:
            self._matcher = self._grammar.matcher()
        is_text = 0 <= token < self._tokenizer.vocab_size
        self._is_behind_bracket = is_text and self._tokenizer.token_bytes(token).endswith(b"<")
        return course

    def _followed(self, matcher: Matcher, token: int, course: Course) -> Course:
        try:
            matcher.accept(token)
        except RuntimeError:
            if self._is_asked:
                raise
            self._matcher = None  # a scripted engine has said what is not of the grammar
            return course
        return _OVER if matcher.is_over else course
