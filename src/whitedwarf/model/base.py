"""What the engine may ask of a model: ids in, logits out, and a state per sequence.

The engine codes against these Protocols; Transformer is the real thing, tests have small fakes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]
LogitRows = Literal["none", "last", "all"]
Pace: TypeAlias = Callable[[int], None]
"""Called with the number of each layer once its rows have been computed, not only begun; it may take its time."""


class Held(Protocol):
    """Something that keeps memory alive, partly together with others."""

    @property
    def own_bytes(self) -> int:
        """What only this object keeps."""

    def shared_bytes(self) -> Mapping[int, int]:
        """Sizes of the buffers it may share, by an identity that holds as long as the object lives."""


class Snapshot(Held, Protocol):
    """A frozen copy of a state; restoring it any number of times gives the same continuation."""

    @property
    def position(self) -> int: ...

    @property
    def rollback_room(self) -> int:
        """How many tokens a state restored from it can take back."""

    def rebased(self, longer: "Snapshot") -> "Snapshot":
        """The same, sharing all it can with a snapshot of the same tokens, and maybe more."""

    def packed(self) -> "Snapshot":
        """The same in buffers of its own, no longer than it needs."""


class State(Held, Protocol):
    """The KV state of one sequence, addressed by absolute position."""

    @property
    def position(self) -> int:
        """Tokens consumed so far = position of the next token."""

    @property
    def rollback_room(self) -> int:
        """How many tokens `rollback` can take back right now."""

    @property
    def draft_room(self) -> int:
        """How many tokens of a pass `take_back` can take back."""

    def take_back(self, num_tokens: int) -> None:
        """Forget the newest tokens of the last pass as if they had not been in it; ValueError beyond `draft_room`."""

    def rollback(self, num_tokens: int) -> None:
        """Forget the newest tokens; ValueError beyond `rollback_room`."""

    def snapshot(self) -> Snapshot: ...

    def restore(self, snapshot: Snapshot) -> None: ...


def never() -> bool:
    """Nobody cancels."""
    return False


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive new tokens of one sequence: a prefill chunk, one decoded token, or drafts to verify.

    A model that has to wait for others asks `is_cancelled` meanwhile.
    """

    state: State
    ids: Ids  # (n,) n >= 1
    logits: LogitRows = "last"
    is_cancelled: Callable[[], bool] = never


def is_reading(spans: Sequence[Span]) -> bool:
    """Whether a pass of these reads some of a prompt; else it decodes a token of each sequence, or looks at drafts."""
    return any(len(span.ids) > 1 and span.logits != "all" for span in spans)


class ModelSize(Protocol):
    @property
    def vocab_size(self) -> int: ...
    @property
    def context_length(self) -> int: ...


class Model(Protocol):
    @property
    def config(self) -> ModelSize: ...

    def new_state(self) -> State: ...

    def forward(self, spans: Sequence[Span]) -> list[Logits]:
        """Run all spans in one pass -> per span the wanted logits (0, 1 or n, vocab).

        States advance together at the end. If it raises, the states of these spans must be dropped. Only not after
        Cancelled: it had to wait, and all spans were cancelled meanwhile; all states have advanced then, or none has.
        """


@runtime_checkable
class PaceableModel(Protocol):
    """A model that can rest between its layers."""

    def forward_at_pace(self, spans: Sequence[Span], pace: Pace) -> list[Logits]:
        """As Model.forward, bit by bit, with `pace` after each layer. For passes that read: see `is_reading`."""


class DraftState(Protocol):
    """What a model's block for drafts remembers of one sequence, beside the sequence's own state."""

    def take_back(self, num_tokens: int) -> None:
        """The newest tokens that were noted were drafts, and wrong."""


@dataclass(frozen=True, slots=True)
class DraftAsk:
    """`token` was drawn after what `state` has noted: which ones come then, at most `most` of them?"""

    state: DraftState
    token: int
    most: int


class DraftBlock(Protocol):
    """A block that guesses tokens ahead from what a model computes anyway (MTP, model.md 2.9)."""

    def new_state(self) -> DraftState:
        """Of a sequence of which nothing was noted, however long it is already."""

    def forward_noting(
        self, model: Model, spans: Sequence[Span], notes: Sequence[DraftState | None], pace: Pace | None = None
    ) -> list[Logits]:
        """`model.forward(spans)`, bit by bit; each span is noted for its drafts. See PaceableModel for `pace`."""

    def draft(self, asks: Sequence[DraftAsk]) -> list[list[int]]:
        """The likeliest tokens, ask by ask; fewer where the block is not sure. After an error the states are lost."""
