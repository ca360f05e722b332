"""Who watches an answer while it is drawn, and steers it: the engine asks after every token and knows no reasons."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import BackendError
from whitedwarf.model.base import Logits

log = logging.getLogger(__name__)

Mask: TypeAlias = npt.NDArray[np.uint8]
"""Which tokens may be drawn: one bit each, lowest bit first; a token behind its end may not."""


@dataclass(frozen=True, slots=True)
class Course:
    """How an answer goes on after a token."""

    is_greedy: bool = False  # the next token is the likeliest one, whatever the sampling options say
    is_over: bool = False  # the answer is complete: it ends as if a stop token had come
    is_inside_call: bool = False  # a state saved here would serve no later prompt


FREE = Course()


class Guide(Protocol):
    """Of one answer, called on the engine's thread only: it has to be quick and must not raise."""

    @property
    def course(self) -> Course:
        """How the answer begins: before the first token."""

    def mask(self) -> Mask | None:
        """What the next token may be, asked before each is drawn; None: anything. Good until the next call.

        A scripted engine draws nothing and does not ask.
        """

    def accept(self, token: int) -> Course:
        """This token was drawn."""


@runtime_checkable
class ForcingGuide(Guide, Protocol):
    """A guide that may know how the answer has to go on, whoever draws it."""

    def forced(self) -> Sequence[int]:
        """Tokens that probably come next, as nothing else may; none where there is a choice. As quick as the rest."""


class Chooser(Protocol):
    """Of one answer: takes tokens out of the sampler's hands, by how likely they are. As quick as a guide, and as mute.

    A scripted engine draws nothing and does not ask.
    """

    def choose(self, logits: Logits) -> int | None:
        """The next token, whatever would be drawn from `logits` (vocab,), which stay as they are; None: draw it.

        Asked before each draw. A token that is chosen takes no random number, and no guide's mask forbids it.
        """


def chosen_before(chooser: Chooser | None, logits: Logits) -> int | None:
    """What `chooser` takes next. BackendError when it raises: the answer has ended then, and no other with it."""
    if chooser is None:
        return None
    try:
        return chooser.choose(logits)
    except Exception as error:  # as below
        log.exception("chooser_failed")
        reason = f"{type(error).__name__}: {error}"
        raise BackendError(
            f"what chooses the answer's tokens failed ({reason}). This request has ended, the engine goes on"
        ) from error


def forced_next(guide: Guide | None) -> Sequence[int]:
    """What `guide` knows to come next; nothing where it fails, which a draw will find out."""
    if not isinstance(guide, ForcingGuide):
        return ()
    try:
        return guide.forced()
    except Exception:  # as above
        log.exception("guide_failed")
        return ()


def mask_before(guide: Guide | None) -> Mask | None:
    """What `guide` allows next. BackendError when it raises: the answer has ended then, and no other with it."""
    if guide is None:
        return None
    try:
        return guide.mask()
    except Exception as error:  # as below
        log.exception("guide_failed")
        reason = f"{type(error).__name__}: {error}"
        raise BackendError(
            f"what steers the answer failed ({reason}). This request has ended, the engine goes on"
        ) from error


def course_after(guide: Guide | None, token: int) -> Course:
    """What `guide` says to `token`. BackendError when it raises: the answer has ended then, and no other with it."""
    if guide is None:
        return FREE
    try:
        return guide.accept(token)
    except Exception as error:  # a guide is not of the engine: what it may raise is not ours to know
        log.exception("guide_failed", extra={"token": token})
        reason = f"{type(error).__name__}: {error}"
        raise BackendError(
            f"what steers the answer failed on token {token} ({reason}). This request has ended, the engine goes on"
        ) from error
