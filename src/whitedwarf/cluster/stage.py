"""One process's layers, and what they remember of each session: what a cluster's member does all day.

Promises: every span is checked against the session's history before anything is computed, so a session that lost or
missed something is never continued; what fails costs the sessions of that work and nothing else; what the coordinator
has dropped is not kept. One call at a time, from any thread. Knows no transport.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from whitedwarf.cluster import boundary
from whitedwarf.cluster.history import Trail, rolled
from whitedwarf.cluster.work import Done, HashMismatch, Hop, SpanWork, StageError, StateOrder, Work
from whitedwarf.engine.power import Kind
from whitedwarf.engine.rests import Rests
from whitedwarf.errors import WhitedwarfError
from whitedwarf.model.base import Held, Span
from whitedwarf.model.saved_states import ArraysKind
from whitedwarf.model.session_payload import LayerArrays
from whitedwarf.model.state import ROLLBACK_TOKENS, SequenceState, StateSnapshot
from whitedwarf.model.steering import Directions, Steering
from whitedwarf.model.transformer import Passed, Transformer
from whitedwarf.ops.base import FloatArray


@dataclass(slots=True)
class _Session:
    state: SequenceState
    trail: Trail
    steering: int


@dataclass(frozen=True, slots=True)
class _Snapshot:
    state: StateSnapshot
    trail: Trail
    steering: int


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What a stage holds now."""

    num_sessions: int
    num_snapshots: int
    held_bytes: int


class Stage:
    """Layers `held` of a model. Which bits streams have is said with the work; `rests` come after layers and tokens."""

    def __init__(self, model: Transformer, rests: Rests | None = None) -> None:
        self._models = {0: model}  # by the number of their steering
        self._sessions: dict[int, _Session] = {}
        self._snapshots: dict[int, _Snapshot] = {}
        self._arriving: dict[int, dict[int, LayerArrays]] = {}  # layers of snapshots that are not complete
        self._lock = threading.Lock()
        self._rests = rests

    @property
    def held(self) -> range:
        return self._models[0].held

    def facts(self) -> StageFacts:
        """Counted over what is kept; each buffer once."""
        with self._lock:
            kept: list[Held] = [session.state for session in self._sessions.values()]
            kept += [snapshot.state for snapshot in self._snapshots.values()]
            shared: dict[int, int] = {}
            for state in kept:
                shared.update(state.shared_bytes())
            own_bytes = sum(state.own_bytes for state in kept)
            return StageFacts(len(self._sessions), len(self._snapshots), own_bytes + sum(shared.values()))

    def work(self, work: Work) -> Done:
        """Do the orders, then run all spans through the layers here.

        HashMismatch names a session that is not what it should be: nothing was computed then. StageError: the
        computation failed, and the sessions of this work are gone. Whatever is raised, the orders were done.
        """
        with self._lock:
            for order in work.orders:
                self._do(order)
            if not work.spans:
                return Done(work.number)
            began_s = perf_counter()
            sessions = [self._checked(span) for span in work.spans]
            passed = self._run(work, sessions)
            streams = None if passed.streams is None else boundary.encode(passed.streams, work.bits)
            logits = np.concatenate(passed.logits) if passed.logits and not work.is_ack_only else None
            hop = Hop(
                layers=(self.held.start, self.held.stop - 1),
                num_tokens=sum(len(span.ids) for span in work.spans),
                eval_us=round((perf_counter() - began_s) * 1e6),
                bytes_in=0 if work.streams is None else work.streams.nbytes,
                bytes_out=sum(array.nbytes for array in (streams, logits) if array is not None),
            )
            return Done(work.number, streams, logits, (hop,))

    def steer(self, number: int, directions: Directions, ffn: float, attention: float) -> None:
        """Know a steering by this number, for sessions that begin later. `directions` are of all layers."""
        with self._lock:
            self._models[number] = self._models[0].steered(Steering(directions, ffn, attention))

    def gather(self, snapshot: int, layer: int, kind: ArraysKind) -> LayerArrays:
        """What a snapshot keeps of one layer. HashMismatch (with the number of the snapshot) where it is not here."""
        with self._lock:
            found = self._snapshots.get(snapshot)
            if found is None:
                raise HashMismatch(snapshot, f"snapshot {snapshot} is not here: its tokens have to be replayed")
            return self._models[0].state_arrays(kind).layer(found.state, layer)

    def scatter(
        self, snapshot: int, layer: int, kind: ArraysKind, arrays: LayerArrays, trail: Trail, steering: int = 0
    ) -> None:
        """Begin or go on to make a snapshot out of arrays; it is there when all layers here have come.

        ValueError where an array has not the shape that the position and the model ask for.
        """
        with self._lock:
            arrived = self._arriving.setdefault(snapshot, {})
            arrived[layer] = arrays
            if set(arrived) < set(self.held):
                return
            del self._arriving[snapshot]
            layers = [arrived[number] for number in self.held]
            state = self._models[0].state_arrays(kind).snapshot(trail.position, layers)
            self._snapshots[snapshot] = _Snapshot(state, trail, steering)

    def _run(self, work: Work, sessions: Sequence[_Session]) -> Passed:
        model = self._model_of(sessions)
        hp, num_rows = model.config.hp, sum(len(span.ids) for span in work.spans)
        spans = [
            Span(session.state, span.ids, "none" if work.is_ack_only else span.logits)
            for session, span in zip(sessions, work.spans, strict=True)
        ]
        with self._failures_told(work):
            if work.streams is None:
                raise ValueError("expected the streams of the layers before, got none")
            entering = boundary.decode(work.streams, (num_rows, hp.hc_streams, hp.hidden_size), work.bits)
            passed = self._paced(model, spans, entering)
        for session, span in zip(sessions, work.spans, strict=True):
            session.trail = session.trail.advanced(span.ids)
        return passed

    def _paced(self, model: Transformer, spans: Sequence[Span], entering: FloatArray) -> Passed:
        """Work, and rest for it as power.py says: after each layer of a prompt's piece, and after each token."""
        if self._rests is None:
            return model.forward_part(spans, entering)
        self._rests.begin()
        is_prompt = any(len(span.ids) > 1 for span in spans)
        passed = model.forward_part(spans, entering, self._rests.after if is_prompt else None)
        self._rests.after(Kind.REST_OF_READ if is_prompt else Kind.DECODE)
        return passed

    @contextmanager
    def _failures_told(self, work: Work) -> Iterator[None]:
        """As StageError, without the sessions whose states may be half advanced."""
        try:
            yield
        except Exception as error:  # the model's own code, and memory: what it may raise is not ours to know
            for span in work.spans:
                self._sessions.pop(span.session, None)
            text = str(error) if isinstance(error, WhitedwarfError) else f"{type(error).__name__}: {error}"
            where = f"layers {self.held.start} to {self.held.stop - 1}"
            raise StageError(f"{where} failed on a batch of {len(work.spans)} sequences: {text}") from error

    def _checked(self, span: SpanWork) -> _Session:
        session = self._sessions.get(span.session)
        if session is None:
            raise HashMismatch(span.session, f"session {span.session} is not here: it has to be replayed")
        if (session.trail.position, session.trail.last) != (span.start, span.hash_before):
            at, expected = session.trail.position, span.start
            raise HashMismatch(
                span.session, f"session {span.session} is at {at} with another history than expected at {expected}"
            )
        if rolled(span.hash_before, span.ids) != span.hash_after:
            raise HashMismatch(span.session, f"the tokens for session {span.session} were changed on the way")
        return session

    def _model_of(self, sessions: Sequence[_Session]) -> Transformer:
        numbers = {session.steering for session in sessions}
        if len(numbers) != 1 or not numbers <= self._models.keys():
            raise StageError(f"expected sessions of one known steering, got those of {sorted(numbers)}")
        return self._models[numbers.pop()]

    def _do(self, order: StateOrder) -> None:
        match order.kind:
            case "new":
                state, trail = self._models[0].new_state(), Trail(ROLLBACK_TOKENS)
                self._sessions[order.session] = _Session(state, trail, order.snapshot)
            case "drop":
                self._sessions.pop(order.session, None)
            case "rollback":
                self._roll_back(order)
            case "snapshot":
                if (session := self._sessions.get(order.session)) is not None:
                    frozen = session.state.snapshot()
                    self._snapshots[order.snapshot] = _Snapshot(frozen, session.trail, session.steering)
            case "restore":
                self._restore(order)
            case "drop_snapshot":
                self._snapshots.pop(order.snapshot, None)
                self._arriving.pop(order.snapshot, None)
            case "rebase":
                found, longer = self._snapshots.get(order.snapshot), self._snapshots.get(order.session)
                if found is not None and longer is not None and longer.trail.position >= found.trail.position:
                    self._snapshots[order.snapshot] = replace(found, state=found.state.rebased(longer.state))
            case "pack":
                if (found := self._snapshots.get(order.snapshot)) is not None:
                    self._snapshots[order.snapshot] = replace(found, state=found.state.packed())

    def _roll_back(self, order: StateOrder) -> None:
        session = self._sessions.get(order.session)
        if session is None:
            return
        try:
            trail = session.trail.back(order.num_tokens)
            session.state.rollback(order.num_tokens)
        except ValueError:  # further back than this one can go: it has to be replayed
            del self._sessions[order.session]
            return
        session.trail = trail

    def _restore(self, order: StateOrder) -> None:
        found = self._snapshots.get(order.snapshot)
        if found is None:
            self._sessions.pop(order.session, None)
            return
        state = self._models[0].new_state()
        state.restore(found.state)
        self._sessions[order.session] = _Session(state, found.trail, found.steering)
