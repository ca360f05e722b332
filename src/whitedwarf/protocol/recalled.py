"""How many earlier tool calls of a request were written as the model had said them: plain counts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recalled:
    """Calls in the history by where their own words came from; `rewritten` are rendered anew from what the client sent.

    `unknown` of those have ids that nobody remembers.
    """

    from_memory: int = 0
    from_disk: int = 0
    rewritten: int = 0
    unknown: int = 0


NOTHING_RECALLED = Recalled()
