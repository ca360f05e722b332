"""A model whose first layers are here and whose others are on the stages of a cluster: the engine's Model.

Promises: with 32 bits the logits are those of the model in one process, bit for bit, whatever happens on the way; a
prompt's pieces whose logits nobody wants return as soon as our own layers have seen them and the window has room, so
that all stages work at once; decoding is one step after the other. A session that a stage lost is computed again from
its ids, on the same route or on a new one. What cannot be helped is one clear error, after which the next pass works.
Knows no transport.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from whitedwarf.cluster import boundary
from whitedwarf.cluster.boundary import Bits
from whitedwarf.cluster.line import Flight, Line, Traveller
from whitedwarf.cluster.payload import ClusterArrays
from whitedwarf.cluster.states import ClusterState, Home
from whitedwarf.cluster.work import HashMismatch, IsCancelled, RouteBroken, Routes, SpanWork
from whitedwarf.errors import Cancelled, ClusterError, UsageError
from whitedwarf.model.base import Ids, LogitRows, Logits, Pace, Span
from whitedwarf.model.batch import Observer
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.saved_states import ArraysKind
from whitedwarf.model.steering import Steering
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import Ops

REPLAY_TOKENS = 512  # in one piece
MOST_ATTEMPTS = 4  # of a pass, and in a row to bring a state up to date


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """`local`: the layers that are here, the first ones. `bits`: of a number on its way between machines."""

    home: Home
    bits: Bits = 32
    replay_tokens: int = REPLAY_TOKENS

    @classmethod
    def over(cls, local: Transformer, routes: Routes, bits: Bits = 32, **more: int) -> "ClusterModel":
        """The layers that are here, and where there is a way to the others; it is taken with the first pass."""
        if local.embedding is None or local.head is not None:
            raise ValueError("expected the first layers of a model, and not the last")
        line = Line(routes, range(local.held.stop, local.config.hp.num_layers))
        return cls(Home(local, line), bits, **more)

    @property
    def config(self) -> ModelConfig:
        return self.home.local.config

    @property
    def ops(self) -> Ops:
        """Of the layers that are here."""
        return self.home.local.ops

    @property
    def steering(self) -> Steering | None:
        return self.home.local.steering

    @property
    def arithmetic(self) -> str:
        """See model/saved_states.py: 32 bits change nothing, fewer do."""
        local = self.home.local.arithmetic
        return local if self.bits == 32 else f"{local} with {self.bits} bits between machines"

    def steered(self, steering: Steering | None) -> "ClusterModel":
        """The same weights under this steering instead of its own: another model, whose states are not this one's."""
        line = self.home.line
        return replace(self, home=Home(self.home.local.steered(steering), line, line.steering_number(steering)))

    def with_context(self, context_length: int) -> "ClusterModel":
        """The same weights with another limit."""
        return replace(self, home=replace(self.home, local=self.home.local.with_context(context_length)))

    def state_arrays(self, kind: ArraysKind) -> ClusterArrays:
        """What takes states of this model apart, and puts them together."""
        return ClusterArrays(self, kind)

    def new_state(self) -> ClusterState:
        return ClusterState(self.home)

    def close(self) -> None:
        """No more passes."""
        with self.home.line.lock:
            self.home.line.close()

    def forward_at_pace(self, spans: Sequence[Span], pace: Pace) -> list[Logits]:
        """See model/base.py, PaceableModel: `pace` after each of our own layers. Members have paces of their own."""
        return self.forward(spans, pace=pace)

    def forward(self, spans: Sequence[Span], observe: Observer | None = None, pace: Pace | None = None) -> list[Logits]:
        """Run all spans in one pass; see model/base.py. ClusterError when the cluster cannot; Cancelled when nobody
        wants it any longer, with the states where they were or, if the work was under way already, where it takes them.
        """
        if observe is not None:
            raise UsageError("layers on other machines cannot be looked into: run this with the whole model here")
        passage = _Passage(self, tuple(spans), tuple(self._own(span) for span in spans), pace)
        if not spans or any(len(span.ids) == 0 for span in spans):
            raise ValueError("a forward pass needs at least one span, and every span at least one token")
        if len({id(state) for state in passage.states}) != len(spans):
            raise ValueError("two spans of one pass share a state: join them into one span")
        with self.home.line.lock:
            return passage.run()

    def bring_up_to_date(self, state: ClusterState, is_cancelled: IsCancelled) -> None:
        """Have every layer remember what the state has consumed. RouteBroken, HashMismatch, ClusterError, Cancelled."""
        self.home.line.connect(is_cancelled)
        if state.is_lost:
            self._replay(state, is_cancelled)

    def fly(
        self,
        states: Sequence[ClusterState],
        pieces: Sequence["Piece"],
        *,
        is_replay: bool = False,
        pace: Pace | None = None,
    ) -> Flight:
        """Our own layers' part of a pass over tokens that the states count as consumed already; then off to the others.
        RouteBroken."""
        local = [Span(state.local, piece.ids, "none") for state, piece in zip(states, pieces, strict=True)]
        streams = self.home.local.forward_part(local, pace=pace).streams
        assert streams is not None
        travellers, works = [], []
        for state, piece in zip(states, pieces, strict=True):
            assert state.remote is not None
            travellers.append(Traveller(state, state.remote))
            works.append(_work_of(state, piece))
        data = boundary.encode(streams, self.bits)
        return self.home.line.send(travellers, works, data, self.bits, is_replay=is_replay)

    def _replay(self, state: ClusterState, is_cancelled: IsCancelled) -> None:
        """Compute a state again from its ids."""
        state.begin_again()
        if not state.position:
            return
        state.num_replays += 1
        if state.num_replays > MOST_ATTEMPTS:
            raise ClusterError(f"the same {state.position} tokens were lost {MOST_ATTEMPTS} times in a row")
        for start in range(0, state.position, self.replay_tokens):
            if is_cancelled():
                raise Cancelled("cancelled while lost work was repeated")
            ids = state.history.slice(start, start + self.replay_tokens)
            self.fly([state], [Piece(start, ids, "none")], is_replay=True)
            self.home.line.settle(self.home.line.window - 1, is_cancelled)
            if state.is_lost:
                raise HashMismatch(0, "a state was lost again while it was computed again")

    def _own(self, span: Span) -> ClusterState:
        if not isinstance(span.state, ClusterState) or not span.state.home.is_of(self.home):
            raise TypeError(f"expected a state made by this model's new_state(), got {type(span.state).__name__}")
        return span.state


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of a sequence from position `start` on."""

    start: int
    ids: Ids
    logits: LogitRows


@dataclass(frozen=True, slots=True)
class _Passage:
    """One pass, attempted until it comes through."""

    model: ClusterModel
    spans: tuple[Span, ...]
    states: tuple[ClusterState, ...]
    pace: Pace | None = None

    def run(self) -> list[Logits]:
        starts = [state.position for state in self.states]
        self._raise_earlier_failure()
        for attempt in range(MOST_ATTEMPTS):
            with self._rewound_if_it_fails(starts):
                try:
                    logits = self._attempt(starts)
                except (RouteBroken, HashMismatch) as error:
                    self._raise_earlier_failure()
                    if attempt + 1 == MOST_ATTEMPTS:
                        raise ClusterError(f"the cluster failed {MOST_ATTEMPTS} times at the same: {error}") from error
                    for state, start in zip(self.states, starts, strict=True):
                        state.rewind(start)
                    continue
            if logits is None:
                raise Cancelled("cancelled while other machines were computing")
            return logits
        raise AssertionError("the last attempt returns or raises")

    def _raise_earlier_failure(self) -> None:
        """Of a piece that nobody waited for."""
        for state in self.states:
            if (failure := state.failure) is not None:
                state.failure = None
                raise failure

    def _attempt(self, starts: Sequence[int]) -> list[Logits] | None:
        """None when nobody wants the logits any longer: the work goes on."""
        model, line = self.model, self.model.home.line
        for state in self.states:
            model.bring_up_to_date(state, self._is_cancelled)
        if any(state.is_lost for state in self.states):  # which showed while another one was brought up to date
            raise HashMismatch(0, "earlier work of a state was lost")
        pieces = []
        for span, state, start in zip(self.spans, self.states, starts, strict=True):
            state.extend(span.ids)
            pieces.append(Piece(start, span.ids, span.logits))
        flight = model.fly(self.states, pieces, pace=self.pace)
        try:
            if any(span.logits != "none" for span in self.spans):
                return self._split(line.result(flight, self._is_cancelled).logits)
            line.settle(line.window - 1, self._is_cancelled)
        except Cancelled:
            if any(span.logits != "none" for span in self.spans):
                return None
        return [np.empty((0, model.config.vocab_size), np.float32) for _ in self.spans]

    def _split(self, logits: Logits | None) -> list[Logits]:
        """The rows span by span."""
        counts = [_num_wanted(span) for span in self.spans]
        if logits is None or logits.shape != (sum(counts), self.model.config.vocab_size):
            found = "none" if logits is None else logits.shape
            raise ClusterError(f"expected logits of {sum(counts)} rows from the last stage, got {found}")
        ends = accumulate(counts)
        return [logits[end - count : end] for count, end in zip(counts, ends, strict=True)]

    def _is_cancelled(self) -> bool:
        return all(span.is_cancelled() for span in self.spans)

    @contextmanager
    def _rewound_if_it_fails(self, starts: Sequence[int]) -> Iterator[None]:
        """Whatever stops a pass, its states are good for another."""
        try:
            yield
        except BaseException:
            for state, start in zip(self.states, starts, strict=True):
                state.rewind(start)
            raise


def _work_of(state: ClusterState, piece: Piece) -> SpanWork:
    assert state.remote is not None
    before = state.history.hash_at(piece.start)
    after = state.history.hash_at(piece.start + len(piece.ids))
    return SpanWork(state.remote.number, piece.start, before, after, piece.ids, piece.logits)


def _num_wanted(span: Span) -> int:
    match span.logits:
        case "all":
            return len(span.ids)
        case "last":
            return 1
        case "none":
            return 0
