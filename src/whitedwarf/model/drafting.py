"""Guesses of a model's MTP block, several tokens ahead (model.md 2.9, 8.1).

The block is fed as it was trained: the streams of position p with the token at p+1. So the newest row always waits for
its token, and rows of tokens that were drafts and wrong are taken back before the block sees them. It sees 128 tokens
back at most: of a long prompt only the end is fed, and where nothing is known it begins with nothing. A shift of all
its positions changes nothing, so they are its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from whitedwarf.model.base import DraftAsk, DraftState, Logits, Model, Pace, Span
from whitedwarf.model.mtp import MtpBlock, MtpOutput
from whitedwarf.model.state import SequenceState
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import FloatArray

Streams = npt.NDArray[np.float32]


@dataclass
class MtpState:
    """Of one sequence: the block's own state, and the rows that it has not been fed.

    `streams` (m, S, D) are the main model's, `ids` the tokens at the next positions: m of them, or one fewer while the
    newest row waits for its token.
    """

    new_state: Callable[[], SequenceState]
    window: int
    state: SequenceState = field(init=False)
    streams: Streams | None = None
    ids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = self.new_state()

    @property
    def num_waiting(self) -> int:
        return 0 if self.streams is None else len(self.streams)

    def add(self, ids: Sequence[int], streams: Streams) -> None:
        """The main model has run these tokens, which gave these rows: of many the newest `window`."""
        if self.num_waiting > len(self.ids):
            self.ids.append(ids[0])
        self.ids.extend(ids[1:])
        self.streams = streams if self.streams is None else np.concatenate([self.streams, streams])
        surplus = len(self.streams) - self.window
        if surplus > 0:  # what was fed before lies beyond the block's window
            self.streams, self.ids = self.streams[surplus:].copy(), self.ids[surplus:]
            self.state = self.new_state()

    def take_back(self, num_tokens: int) -> None:
        """See model/base.py."""
        if num_tokens:
            assert self.streams is not None
            self.streams = self.streams[: len(self.streams) - num_tokens]
            del self.ids[len(self.ids) - num_tokens :]

    def fed(self, token: int) -> tuple[list[int], Streams]:
        """All that waits, the newest row with this token: from now on it does not."""
        assert self.streams is not None
        ids, streams = [*self.ids, token], self.streams
        self.ids, self.streams = [], None
        return ids, streams


@dataclass(slots=True)
class _Line:
    """One ask while it is answered."""

    state: MtpState
    most: int
    found: list[int] = field(default_factory=list)
    num_guessed: int = 0  # rows of the block's state that stand for guesses

    @property
    def is_open(self) -> bool:
        return len(self.found) < self.most


@dataclass(frozen=True, slots=True)
class MtpDrafts:
    """A DraftBlock. Its best token is a draft where its logit is at least `margin` above the second."""

    block: MtpBlock
    margin: float = 0.0

    def new_state(self) -> MtpState:
        """See model/base.py."""
        return MtpState(self.block.new_state, self._window)

    def forward_noting(
        self, model: Model, spans: Sequence[Span], notes: Sequence[DraftState | None], pace: Pace | None = None
    ) -> list[Logits]:
        """See model/base.py; TypeError for a model that is not all in this process."""
        if not isinstance(model, Transformer):
            raise TypeError(f"expected a whole model to draft for, got {type(model).__name__}")
        kept: list[Streams | None] = []
        logits = model.forward(spans, pace=pace, note=lambda streams: kept.extend(self._ends(spans, notes, streams)))
        for span, note, streams in zip(spans, notes, kept, strict=True):
            if note is not None and streams is not None:
                _own(note).add(span.ids[len(span.ids) - len(streams) :].tolist(), streams)
        return logits

    @property
    def _window(self) -> int:
        return self.block.main.config.hp.sliding_window

    def draft(self, asks: Sequence[DraftAsk]) -> list[list[int]]:
        """See model/base.py: all that waits is fed in one pass, then the block goes on from its own streams."""
        lines = [_Line(_own(ask.state), ask.most) for ask in asks]
        # Of a sequence of which nothing was noted nothing can be guessed.
        going = [line for line in lines if line.is_open and line.state.num_waiting]
        tokens = {id(line): ask.token for line, ask in zip(lines, asks, strict=True)}
        output = self._feed([(line, tokens[id(line)]) for line in going]) if going else None
        while output is not None:
            going, output = self._step(going, output)
        for line in lines:
            line.state.state.rollback(line.num_guessed)
        return [line.found for line in lines]

    def _feed(self, lines: Sequence[tuple[_Line, int]]) -> MtpOutput:
        fed = [(line.state.state, *line.state.fed(token)) for line, token in lines]
        spans = [Span(state, np.array(ids, np.int32)) for state, ids, _ in fed]
        streams = np.concatenate([streams for _, _, streams in fed])
        return self.block.forward_last(spans, self._taken_in(streams))

    def _step(self, going: Sequence[_Line], output: MtpOutput) -> tuple[list[_Line], MtpOutput | None]:
        """Take the block's best tokens where it is sure, and go on with those lines that have not enough of them."""
        rows = []
        for row, (line, logits) in enumerate(zip(going, output.logits, strict=True)):
            token = int(np.argmax(logits))
            if not self._is_sure(logits, token):
                continue
            line.found.append(token)
            if line.is_open:
                rows.append(row)
        if not rows:
            return [], None
        next_lines = [going[row] for row in rows]
        for line in next_lines:
            line.num_guessed += 1
        spans = [Span(line.state.state, np.array(line.found[-1:], np.int32)) for line in next_lines]
        streams = output.streams if len(rows) == len(going) else self.block.main.ops.take_rows(output.streams, rows)
        return next_lines, self.block.forward_last(spans, streams)

    def _is_sure(self, logits: Logits, best: int) -> bool:
        if self.margin <= 0:
            return bool(np.isfinite(logits[best]))
        second = max(logits[:best].max(initial=-np.inf), logits[best + 1 :].max(initial=-np.inf))
        return bool(logits[best] - second >= self.margin)

    def _ends(
        self, spans: Sequence[Span], notes: Sequence[DraftState | None], streams: FloatArray
    ) -> list[Streams | None]:
        """Of every span that is noted the newest rows that the block can see, copied to the host."""
        ends, window = np.cumsum([len(span.ids) for span in spans]).tolist(), self._window
        return [
            None if note is None else self._copied(streams[end - min(len(span.ids), window) : end])
            for span, note, end in zip(spans, notes, ends, strict=True)
        ]

    def _copied(self, rows: FloatArray) -> Streams:
        copied: Streams = np.array(self.block.main.ops.host(rows), np.float32)
        return copied

    def _taken_in(self, streams: Streams) -> FloatArray:
        flat: Any = self.block.main.ops.memory(self.block.main.held.start).to_device(streams.reshape(len(streams), -1))
        taken: FloatArray = flat.reshape(streams.shape)
        return taken


def _own(state: DraftState) -> MtpState:
    if not isinstance(state, MtpState):
        raise TypeError(f"expected a state made by this block's new_state(), got {type(state).__name__}")
    return state
