"""The markers of an answer as the parser sees them: spelt out in a text stream, one stand-in each in an id stream."""

from dataclasses import dataclass

from whitedwarf.prompt.marker_matcher import Pattern
from whitedwarf.prompt.output_segment import CONTROL_DSML, CONTROL_OTHER, CONTROL_THINK_CLOSE, CONTROL_THINK_OPEN
from whitedwarf.prompt.special import GROUNDING_TOKENS, SpecialToken


@dataclass(frozen=True, slots=True)
class Markup:
    """Everything that is built from the three control tokens; V4.1 puts a space after the last one, V4 does not.

    `strays`: the other control tokens, which mean nothing in an answer; those around places in an image do.
    """

    think_open: str
    think_close: str
    dsml: str
    strays: tuple[Pattern, ...]

    @property
    def open_tag(self) -> str:
        """Where any DSML tag begins."""
        return "<" + self.dsml

    @property
    def close_tag(self) -> str:
        """Where any DSML closing tag begins."""
        return "</" + self.dsml

    @property
    def block_ends(self) -> tuple[Pattern, ...]:
        """The end of a block of calls, V4.1 and V4."""
        return Pattern(f"{self.close_tag} calls>"), Pattern(f"{self.close_tag}tool_calls>")


_MEANT = (SpecialToken.THINK_OPEN, SpecialToken.THINK_CLOSE, SpecialToken.DSML, *GROUNDING_TOKENS)
_STRAYS = tuple(Pattern(token.value) for token in SpecialToken if token not in _MEANT)
SPELT = Markup(SpecialToken.THINK_OPEN.value, SpecialToken.THINK_CLOSE.value, SpecialToken.DSML.value, _STRAYS)
TYPED = Markup(CONTROL_THINK_OPEN, CONTROL_THINK_CLOSE, CONTROL_DSML, (Pattern(CONTROL_OTHER),))
