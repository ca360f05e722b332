"""Generated ids to what a screen shows: pieces of thinking and of answer, read as the server reads them.

Promises: the pieces are the same text whatever arrives when; half characters wait; no markup is shown, neither what
divides thinking from the answer nor calls, for which nobody asked here. Tags spelt in ordinary tokens are text.
"""

from collections.abc import Iterable, Sequence

from whitedwarf.cli.screen import Piece
from whitedwarf.conversation.events import Event, ReasoningDelta, TextDelta
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer


class AnswerText:
    """One generation's ids, in order."""

    def __init__(self, tokenizer: Tokenizer, start: ParseStart) -> None:
        self._parser = OutputParser(ParseOptions(start=start, parse_tool_calls=False), tokenizer)

    def feed(self, token_id: int) -> list[Piece]:
        """What can be shown now, after this id."""
        return _pieces(self._parser.feed_ids((token_id,)))

    def finish(self) -> list[Piece]:
        """The rest: nothing can become markup any more."""
        return _pieces(self._parser.finish())


def parse_start(prompt: Sequence[int], tokenizer: Tokenizer) -> ParseStart:
    """Where this prompt leaves off: it may have opened a thought, and gone on with it or with the answer."""
    opens, closes = [tokenizer.special_id(token) for token in (SpecialToken.THINK_OPEN, SpecialToken.THINK_CLOSE)]
    answers = tokenizer.special_id(SpecialToken.ASSISTANT)
    last = prompt[-1] if prompt else answers
    if next((token == opens for token in reversed(prompt) if token in (opens, closes)), False):
        return ParseStart.REASONING if last == opens else ParseStart.REASONING_CONTINUED
    return ParseStart.CONTENT if last in (closes, answers) else ParseStart.CONTENT_CONTINUED


def _pieces(events: Iterable[Event]) -> list[Piece]:
    shown = [event for event in events if isinstance(event, ReasoningDelta | TextDelta) and event.text]
    return [Piece(event.text, isinstance(event, ReasoningDelta)) for event in shown]
