"""The markers of an answer as the parser sees them: made of the stand-ins of control tokens, found spelt out as well.

Promises: a control token in a text piece is its spelling, in ids it is the token and no spelling; a marker may begin
in a piece of one kind and end in one of the other. Between two tokens V4.1 puts a space after the DSML token, V4 none.
"""

from collections.abc import Iterator
from dataclasses import replace

from whitedwarf.prompt.marker_matcher import Pattern
from whitedwarf.prompt.output_segment import CONTROL_DSML, CONTROL_OTHER, CONTROL_THINK_CLOSE, CONTROL_THINK_OPEN
from whitedwarf.prompt.special import GROUNDING_TOKENS, SpecialToken

THINK_OPEN = CONTROL_THINK_OPEN
THINK_CLOSE = CONTROL_THINK_CLOSE
DSML = CONTROL_DSML
OPEN_TAG = f"<{DSML}"
CLOSE_TAG = f"</{DSML}"
BLOCK_ENDS = (Pattern(f"{CLOSE_TAG} calls>"), Pattern(f"{CLOSE_TAG}tool_calls>"))
STRAY = Pattern(CONTROL_OTHER)
"""The other control tokens, which mean nothing in an answer; those around places in an image do."""

_MEANT = {
    SpecialToken.THINK_OPEN: CONTROL_THINK_OPEN,
    SpecialToken.THINK_CLOSE: CONTROL_THINK_CLOSE,
    SpecialToken.DSML: CONTROL_DSML,
}
_SPELLINGS = {
    **{stand_in: (token.value,) for token, stand_in in _MEANT.items()},
    CONTROL_OTHER: tuple([token.value for token in SpecialToken if token not in (*_MEANT, *GROUNDING_TOKENS)]),
}


def readings(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern as it is, and once for each spelling of the control token in it."""
    yield replace(pattern, marker=pattern.text)
    for stand_in, spellings in _SPELLINGS.items():
        at = pattern.text.find(stand_in)
        for spelling in spellings if at >= 0 else ():
            text = pattern.text.replace(stand_in, spelling)
            yield replace(pattern, text=text, spelt=(at, at + len(spelling)), marker=pattern.text)
