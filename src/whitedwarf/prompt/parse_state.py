"""One state of the output parser: which markers it looks for, what each does, and where other text goes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whitedwarf.prompt.marker_matcher import Matcher, Pattern, shared_matcher
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


def state(rules: Sequence[Rule], sink: Sink, *, flushes: bool = False, is_shared: bool = True) -> ParseState:
    """A state of these rules; `is_shared` is for markers that no user chooses."""
    patterns = tuple([rule.pattern for rule in rules])
    matcher = shared_matcher(patterns) if is_shared else Matcher(patterns)
    return ParseState(matcher, tuple([rule.action for rule in rules]), sink, flushes)


def limited_state(
    rules: list[Rule], sink: Sink, text_limit: int, on_limit: Action, *, may_precede: Callable[[str], bool]
) -> ParseState:
    """A state that looks for a marker behind a short text only, and only behind text that `may_precede` it."""
    patterns = tuple([rule.pattern for rule in rules])
    actions = tuple([rule.action for rule in rules])
    matcher = shared_matcher(patterns)
    return ParseState(matcher, actions, sink, text_limit=text_limit, on_limit=on_limit, may_precede=may_precede)


def drop(text: str, segment: Segment, offset: int) -> None:
    """The sink for text that nobody is to see."""
