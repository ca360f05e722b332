"""Documents packed into token rows of a fixed length, mixed by their shares of tokens.

Evaluation prompts that the sampler happens to make are thrown away.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

import torch
from torch import Tensor

from nano.curriculum.drills import recital
from nano.curriculum.mixture import BEGINNINGS, DOCUMENTS
from nano.documents import Document, Encoder

PAD = 2
_ALIGNED = 4  # documents begin at multiples of the finer compression ratio
_SMALLEST_GAP = 24
_MOST_WAITING = 24
_TARGET_STEP = 256  # lists of trained places are padded to a multiple, so that few shapes of product occur


@dataclass(frozen=True)
class Row:
    """One packed row, and what is to be learnt from it."""

    ids: Tensor  # (1, T) int64
    starts: Tensor  # (1, T) int32
    places: Tensor  # (n,) tokens whose successor is trained; padded with token 0
    targets: Tensor  # (n,) the successors
    weights: Tensor  # (n,) f32; 0 where padded
    kinds: Tensor  # (n,) number of the document kind, in the order of the shares

    def drafts(self) -> tuple[Tensor, Tensor]:
        """For the MTP block: the places one before, and their weights (0 where there is no token before)."""
        earlier = (self.places - 1).clamp(min=0)
        is_inside = (self.places > 0) & (self.starts[0][earlier] == self.starts[0][self.places])
        return earlier, self.weights * is_inside


class RowSource:
    """An endless stream of rows, mixed by shares of tokens."""

    def __init__(
        self,
        encoder: Encoder,
        shares: dict[str, float],
        length: int,
        seed: int,
        forbidden_prompts: Iterable[list[int]] = (),
    ):
        self._encoder, self._shares, self._length, self._rng = encoder, shares, length, Random(seed)
        self._given = dict.fromkeys(shares, 1.0)
        self._waiting: list[tuple[str, Document]] = []
        self._forbidden: dict[int, set[tuple[int, ...]]] = {}
        for prompt in forbidden_prompts:
            self._forbidden.setdefault(len(prompt), set()).add(tuple(prompt))
        self.longest_text = 60.0

    def row(self) -> Row:
        """The next row. What does not fit waits for the next one; long tool sessions are cut instead."""
        building = _Building(self._length, list(self._shares))
        misses = 0
        while building.room >= _SMALLEST_GAP and misses < 7:
            place = next((i for i, (_, held) in enumerate(self._waiting) if len(held.ids) <= building.room), None)
            kind, document = self._next() if place is None else self._waiting.pop(place)
            size = len(document.ids)
            if size > building.room and kind.endswith("tool session") and building.room > 700:
                document = document.cut(building.room)
            if len(document.ids) <= building.room:
                building.add(kind, document)
                self._given[kind] += len(document.ids)
                continue
            misses += 1
            if size <= self._length and len(self._waiting) < _MOST_WAITING:
                self._waiting.append((kind, document))
        return building.row()

    def _next(self) -> tuple[str, Document]:
        """A document of the kind that is furthest behind its share."""
        while True:
            kind = max(self._shares, key=lambda name: self._shares[name] / self._given[name])
            if kind == "recital":
                most = int(max(12, min(64, self.longest_text * 1.5)))
                document = self._encoder.recital(recital(self._rng, most))
            else:
                document = self._encoder.document(DOCUMENTS[kind](self._rng, self.longest_text))
            if not document.answers_one_of(self._forbidden):
                return kind, document


@dataclass
class _Building:
    length: int
    kind_names: list[str]
    ids: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)

    @property
    def room(self) -> int:
        return self.length - len(self.ids)

    def add(self, kind: str, document: Document) -> None:
        padding = min(-len(document.ids) % _ALIGNED, self.room - len(document.ids))
        size = len(document.ids) + padding
        self.starts += [len(self.ids)] * size
        self.ids += document.ids + [PAD] * padding
        self.weights += document.weights(BEGINNINGS.get(kind, 1.0)) + [0.0] * padding
        self.kinds += [self.kind_names.index(kind)] * size

    def row(self) -> Row:
        rest = self.room
        ids = torch.tensor([self.ids + [PAD] * rest])
        starts = torch.tensor([self.starts + [len(self.ids)] * rest], dtype=torch.int32)
        weights = torch.tensor(self.weights + [0.0] * rest)
        places = torch.nonzero(weights[1:]).squeeze(1)
        places = torch.cat([places, places.new_zeros(-len(places) % _TARGET_STEP)])
        is_real = torch.arange(len(places)) < (weights[1:] > 0).sum()
        kinds = torch.tensor(self.kinds + [0] * rest)
        return Row(ids, starts, places, ids[0][places + 1], weights[places + 1] * is_real, kinds[places + 1])
