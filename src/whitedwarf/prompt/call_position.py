"""Where in an answer the next token stands: in a thought, in the answer's words, in which part of a call, behind it.

Promises: any cut of the same text into tokens gives the same positions; nothing is raised, whatever comes. A block of
calls is COMPLETE only where parse.py, salvaging, has finished a call and shows nothing more: the block consists of
control tokens and holds a call. In thoughts nothing is a call. Two more ways to write tags, which are text to the
parser, have positions only: without the control token's first bar, and plain `<tool_calls>`.
Spec: product.md B.8, B.10, B.13.

Outside of calls a token costs two or three look-ups; only one that may begin something is read.
"""

import codecs
import re
from functools import cached_property, partial

from whitedwarf.prompt.call_stretches import INVOKE, TAG_LIMIT, CallStretches, Tags
from whitedwarf.prompt.markup import CLOSE_TAG, DSML, THINK_CLOSE, THINK_OPEN
from whitedwarf.prompt.output_segment import CONTROL_OTHER
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.stretch import Limit, Marker, Position, StretchReader, stretch
from whitedwarf.prompt.tokenizer import Tokenizer

_TAG = re.compile(r" ?[\w-]*( [\w-]*)?( name=.*)?", re.DOTALL)  # as in dsml_salvage.py
_SPELT = SpecialToken.DSML.value
_TEXT_BLOCKS = {  # what opens a block that is text, and how its tags go on behind their `<`
    "<tool_calls>": "",
    **{f"<{prefix}{word}>": prefix for prefix in (_SPELT[1:], _SPELT) for word in ("tool_calls", " calls")},
}
_STAND_INS = {
    SpecialToken.THINK_OPEN: THINK_OPEN,
    SpecialToken.THINK_CLOSE: THINK_CLOSE,
    SpecialToken.DSML: DSML,
}
_LED_IN_BY = "<"  # every tag that is text begins with it
_BLANK = re.compile(r"\s*")
_BLANK_LIMIT = 64  # characters; behind more blanks no thought is looked for that nobody asked for


class CallPosition:
    """Of one answer, fed the ids that were drawn; `options` say where the prompt left off."""

    def __init__(self, tokenizer: Tokenizer, options: ParseOptions) -> None:
        self._tokenizer = tokenizer
        self._spellings = tokenizer.vocabulary.tokens
        special_ids = tokenizer.vocabulary.special_ids
        self._controls = dict.fromkeys(special_ids.values(), CONTROL_OTHER)
        self._controls |= {special_ids[token]: mark for token, mark in _STAND_INS.items() if token in special_ids}
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._reader = StretchReader()
        self._text_calls: dict[str, CallStretches] = {}  # by prefix, those that were needed
        self._make_stretches(may_think=options.start is ParseStart.CONTENT)
        if options.starts_in_tool_calls:
            self._calls.open()
        elif options.start in (ParseStart.REASONING, ParseStart.REASONING_CONTINUED):
            self._to_thought()
        else:
            self._to_first_words()

    @property
    def position(self) -> Position:
        """Where the next token stands."""
        return self._reader.position

    def accept(self, token: int) -> Position:
        """This token came; where the next one stands. Ids outside the vocabulary are no text."""
        control = self._controls.get(token)
        if control is not None:
            self._reader.read(self._utf8.decode(b"", final=True) + control)
            self._utf8.reset()
        elif 0 <= token < len(self._spellings) and not self._is_skipped(token):
            self._reader.read(self._utf8.decode(self._tokenizer.token_bytes(token)))
        return self._reader.position

    def _is_skipped(self, token: int) -> bool:
        """Whether this token of text changes nothing: that is so of nearly all outside of calls."""
        return self._reader.is_idle and _LED_IN_BY not in self._spellings[token]

    def _make_stretches(self, *, may_think: bool) -> None:
        ways_in = self._ways_in()
        ways_in += [(opening, partial(self._open_text, prefix)) for opening, prefix in _TEXT_BLOCKS.items()]
        self._thought = stretch(Position.THINKING, [(THINK_CLOSE, self._to_first_words)], skips=True)
        self._words = stretch(Position.OUTSIDE, ways_in, skips=True)
        strays: list[Marker] = [(mark, self._to_first_words) for mark in (THINK_CLOSE, CONTROL_OTHER)]
        blank = Limit(_BLANK_LIMIT, _BLANK, self._to_words)
        first = stretch(Position.OUTSIDE, [*ways_in, (THINK_OPEN, self._to_thought), *strays], limit=blank)
        self._first_words = first if may_think else self._words
        tag = Limit(TAG_LIMIT, _TAG, self._to_words)
        opened: list[Marker] = [(">", self._open), (INVOKE, self._open_by_call)]
        self._opener = stretch(Position.STRUCTURE, opened, limit=tag)
        self._stray = stretch(Position.OUTSIDE, [(">", self._to_words)], limit=tag)
        self._done = stretch(Position.COMPLETE, [], skips=True)

    def _ways_in(self) -> list[Marker]:
        """What the parser sees in the answer's words."""
        return [(CLOSE_TAG, self._to_stray), (DSML, self._to_opener)]

    @cached_property
    def _calls(self) -> CallStretches:
        return CallStretches(self._reader, Tags(DSML, is_text=False), self._leave)

    def _open(self) -> None:
        self._calls.open()

    def _open_by_call(self) -> None:
        self._calls.open_by_call()

    def _open_text(self, prefix: str) -> None:
        calls = self._text_calls.get(prefix)
        if calls is None:
            tags = Tags(prefix, is_text=True)
            calls = CallStretches(self._reader, tags, lambda has_call: self._to_words(), self._ways_in())
            self._text_calls[prefix] = calls
        calls.open()

    def _leave(self, has_call: bool) -> None:
        self._reader.enter(self._done if has_call else self._words)

    def _to_words(self) -> None:
        self._reader.enter(self._words)

    def _to_first_words(self) -> None:
        self._reader.enter(self._first_words)

    def _to_thought(self) -> None:
        self._reader.enter(self._thought)

    def _to_opener(self) -> None:
        self._reader.enter(self._opener)

    def _to_stray(self) -> None:
        self._reader.enter(self._stray)
