"""A model whose logits depend on every token seen so far and on nothing else, so that any mix-up of states shows."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from whitedwarf.model.base import Logits, Snapshot, Span

FAKE_SNAPSHOT_BYTES = 100
_MASK64 = (1 << 64) - 1


def history_hash(ids: Sequence[int]) -> int:
    """FNV-1a over the ids."""
    value = 0xCBF29CE484222325
    for token in ids:
        value = ((value ^ (int(token) + 1)) * 0x100000001B3) & _MASK64
    return value


def expected_logits(ids: Sequence[int], vocab_size: int) -> Logits:
    """What a FakeModel answers after `ids`, from zero."""
    return np.random.default_rng(history_hash(ids)).normal(scale=3.0, size=vocab_size).astype(np.float32)


def greedy_continuation(ids: Sequence[int], count: int, vocab_size: int) -> list[int]:
    """The `count` tokens a FakeModel continues `ids` with."""
    history = list(ids)
    for _ in range(count):
        history.append(int(np.argmax(expected_logits(history, vocab_size))))
    return history[len(ids) :]


@dataclass(frozen=True)
class FakeConfig:
    vocab_size: int
    context_length: int


@dataclass(frozen=True)
class FakeSnapshot:
    """Weighs `FAKE_SNAPSHOT_BYTES`, whatever its length."""

    ids: tuple[int, ...]
    rollback_room: int = 0
    own_bytes: int = FAKE_SNAPSHOT_BYTES

    @property
    def position(self) -> int:
        return len(self.ids)

    def shared_bytes(self) -> dict[int, int]:
        return {}

    def rebased(self, longer: Snapshot) -> "FakeSnapshot":
        assert isinstance(longer, FakeSnapshot)
        assert longer.ids[: len(self.ids)] == self.ids
        return self

    def packed(self) -> "FakeSnapshot":
        return self


@dataclass(eq=False)
class FakeState:
    max_rollback: int
    ids: list[int] = field(default_factory=list)
    oldest: int = 0  # no position before this one can be returned to
    before: tuple[int, int] = (0, 0)  # position and `oldest` before the last pass
    own_bytes: int = FAKE_SNAPSHOT_BYTES

    @property
    def position(self) -> int:
        return len(self.ids)

    @property
    def rollback_room(self) -> int:
        return min(self.max_rollback, len(self.ids) - self.oldest)

    @property
    def draft_room(self) -> int:
        return self.max_rollback

    def take_back(self, num_tokens: int) -> None:
        start, oldest = self.before
        if num_tokens > min(self.max_rollback, len(self.ids) - start):
            raise ValueError(f"cannot take back {num_tokens} tokens of a pass of {len(self.ids) - start}")
        del self.ids[len(self.ids) - num_tokens :]
        self.oldest = max(oldest, len(self.ids) - self.max_rollback)

    def rollback(self, num_tokens: int) -> None:
        if num_tokens > self.rollback_room:
            raise ValueError(f"cannot take back {num_tokens} tokens, room for {self.rollback_room}")
        del self.ids[len(self.ids) - num_tokens :]

    def snapshot(self) -> FakeSnapshot:
        return FakeSnapshot(tuple(self.ids), self.rollback_room)

    def restore(self, snapshot: Snapshot) -> None:
        assert isinstance(snapshot, FakeSnapshot)
        self.ids = list(snapshot.ids)
        self.oldest = len(self.ids) - snapshot.rollback_room

    def shared_bytes(self) -> dict[int, int]:
        return {}


class FakeModel:
    """`before_forward` runs first in every pass: it may block, look at the spans, or raise.

    Recorded: `batches`, the number of rows of each span of each pass; `rows`, their sum; `num_states`, states made.
    """

    def __init__(
        self,
        *,
        vocab_size: int = 64,
        context_length: int = 1024,
        max_rollback: int = 0,
        delay_s: float = 0.0,
        before_forward: Callable[[Sequence[Span]], None] | None = None,
    ) -> None:
        self.config = FakeConfig(vocab_size, context_length)
        self.batches: list[tuple[int, ...]] = []
        self.num_states = 0
        self.before_forward = before_forward
        self._max_rollback = max_rollback
        self._delay_s = delay_s

    @property
    def rows(self) -> int:
        return sum(map(sum, self.batches))

    def new_state(self) -> FakeState:
        self.num_states += 1
        return FakeState(self._max_rollback)

    def forward(self, spans: Sequence[Span]) -> list[Logits]:
        if self.before_forward is not None:
            self.before_forward(spans)
        time.sleep(self._delay_s)
        self.batches.append(tuple(len(span.ids) for span in spans))
        return [self._run(span) for span in spans]

    def _run(self, span: Span) -> Logits:
        assert isinstance(span.state, FakeState)
        assert span.ids.dtype == np.int32
        rows = []
        span.state.before = len(span.state.ids), span.state.oldest
        for token in span.ids:
            span.state.ids.append(int(token))
            span.state.oldest = max(span.state.oldest, len(span.state.ids) - self._max_rollback)
            if span.logits == "all":
                rows.append(expected_logits(span.state.ids, self.config.vocab_size))
        if span.logits == "last":
            rows.append(expected_logits(span.state.ids, self.config.vocab_size))
        return np.array(rows, np.float32).reshape(len(rows), self.config.vocab_size)
