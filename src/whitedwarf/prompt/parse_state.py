"""One state of the output parser: which markers it looks for, what each does, and where other text goes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from whitedwarf.prompt.marker_matcher import MOST_SHARED, Matcher, Pattern, is_long, matcher_of
from whitedwarf.prompt.markup import readings
from whitedwarf.prompt.output_segment import Segment

Action = Callable[[], None]
Sink = Callable[[str, Segment, int], None]  # the text, the piece it comes from, its offset in that piece


@dataclass(frozen=True, slots=True)
class Rule:
    """A marker and what finding it does; the marker itself is never shown."""

    pattern: Pattern
    action: Action


@dataclass(frozen=True, slots=True)
class ParseState:
    """`flushes`: text still held when the output ends was no marker and goes to the sink, otherwise it is dropped.

    `after_newlines`: leading newlines are dropped one by one, then this state follows; `sink` is never used.
    `text_limit`: nothing is given out before a marker decides; when more text than this comes first, or text that
    `may_precede` refuses, `on_limit` is called and the text is still there for the state it enters. So it is when the
    output ends with such text.
    """

    matcher: Matcher
    actions: tuple[Action, ...]
    sink: Sink
    flushes: bool = False
    after_newlines: Action | None = None
    text_limit: int | None = None
    on_limit: Action | None = None
    may_precede: Callable[[str], bool] | None = None


def state(rules: Sequence[Rule], sink: Sink, *, flushes: bool = False) -> ParseState:
    """A state of these rules."""
    matcher, actions = _readers(rules)
    return ParseState(matcher, actions, sink, flushes)


def limited_state(
    rules: Sequence[Rule], sink: Sink, text_limit: int, on_limit: Action, *, may_precede: Callable[[str], bool]
) -> ParseState:
    """A state that looks for a marker behind a short text only, and only behind text that `may_precede` it."""
    matcher, actions = _readers(rules)
    return ParseState(matcher, actions, sink, text_limit=text_limit, on_limit=on_limit, may_precede=may_precede)


def _readers(rules: Sequence[Rule]) -> tuple[Matcher, tuple[Action, ...]]:
    """Each marker in all its readings, and the action of each of these."""
    patterns = tuple([rule.pattern for rule in rules])
    read, markers = _readings(patterns) if is_long(patterns) else _shared_readings(patterns)
    return matcher_of(read), tuple([rules[marker].action for marker in markers])


def _readings(patterns: tuple[Pattern, ...]) -> tuple[tuple[Pattern, ...], tuple[int, ...]]:
    """All readings, and which pattern each of them is of."""
    read = [(reading, marker) for marker, pattern in enumerate(patterns) for reading in readings(pattern)]
    return tuple([reading for reading, _ in read]), tuple([marker for _, marker in read])


_shared_readings = lru_cache(maxsize=MOST_SHARED)(_readings)


def drop(text: str, segment: Segment, offset: int) -> None:
    """The sink for text that nobody is to see."""
