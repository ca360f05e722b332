"""Layers over several cards: a backend of backends, each of which has some of the layers, and the state of these.

An operation runs on the card of its weights or of its layer, else on that of its first array; what lies elsewhere is
moved there. The numbers of a pass (turns, positions, counts) are copied to a card once, when it first needs them; the
streams go on to the next card with its first layer. The embedding is with the first layers, the head with the last.
The cards' backends must not record passes as graphs. Knows nothing of how a card computes.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, cast

from whitedwarf.ops.base import HyperSettings, HyperWeights, Ops, P, Weight
from whitedwarf.ops.spans import RowMemory, SpanRows
from whitedwarf.weights.placement import layer_of
from whitedwarf.weights.tensors import Tensor

_OPERATIONS = frozenset(name for name in vars(Ops) if not name.startswith("_"))
_BY_LAYER = frozenset({"pool", "pick", "attend"})  # (spans, layer, ...)


class Card(Protocol):
    """One card's backend, and what can be known of its arrays."""

    @property
    def ops(self) -> Ops: ...
    @property
    def end_layer(self) -> int: ...

    def owns(self, array: Any) -> bool:
        """Whether an array lies on this card; true for what is no array of a device."""

    def take(self, array: Any) -> Any:
        """An array of another card, on this one."""

    def current(self) -> AbstractContextManager[Any]:
        """While it is entered, work goes to this card."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A weight and the number of its card."""

    weight: Weight
    card: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weight.shape


class Numbers:
    """Numpy's arrays of a pass, and all of them on each card that asked for one."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = tuple(values)
        self._copies: dict[int, Sequence[Any]] = {}

    def on(self, number: int, card: Card) -> Sequence[Any]:
        if number not in self._copies:
            self._copies[number] = card.ops.arrays(*self.values)
        return self._copies[number]


@dataclass(frozen=True, slots=True)
class Everywhere:
    """One of the arrays of a pass."""

    numbers: Numbers
    index: int

    def on(self, number: int, card: Card) -> Any:
        return self.numbers.on(number, card)[self.index]

    @property
    def values(self) -> Any:
        return self.numbers.values[self.index]

    @property
    def shape(self) -> Any:
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)


class Parameter:
    """Numbers that stay, and a copy on each card that asked."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self._copies: dict[int, Any] = {}

    def on(self, number: int, card: Card) -> Any:
        if number not in self._copies:
            self._copies[number] = card.ops.parameter(self.values)
        return self._copies[number]


class CardSpans:
    """The spans of a pass, with each card's own handle on them."""

    def __init__(self, parts: Sequence[SpanRows]) -> None:
        self.parts = tuple(parts)
        self._handles: dict[int, Any] = {}

    def on(self, number: int, card: Card) -> Any:
        if number not in self._handles:
            self._handles[number] = card.ops.spans(self.parts)
        return self._handles[number]


class LayeredOps:
    """Cards in the order of their layers."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self.cards = tuple(cards)
        self.name = cards[0].ops.name
        self._last_layer = max(card.end_layer for card in cards) - 1

    @classmethod
    def over(cls, cards: Sequence[Card]) -> Ops:
        """Itself as a backend."""
        return cast(Ops, cls(cards))

    def __getattr__(self, name: str) -> Any:
        """Any operation, on the card where it belongs."""
        if name not in _OPERATIONS:
            raise AttributeError(f"backends have no {name}")
        return _Operation(self, name)

    def weight(self, tensor: Tensor) -> Weight:
        number = self.card_of(self._layer_of(tensor.name))
        return Placed(self.cards[number].ops.weight(tensor), number)

    def vector(self, tensor: Tensor) -> Any:
        return self.cards[self.card_of(self._layer_of(tensor.name))].ops.vector(tensor)

    def parameter(self, values: Any) -> Any:
        return Parameter(values)

    def arrays(self, *values: Any) -> Any:
        numbers = Numbers(values)
        return tuple(Everywhere(numbers, index) for index in range(len(values)))

    def memory(self, layer: int) -> RowMemory:
        return self.cards[self.card_of(layer)].ops.memory(layer)

    def spans(self, parts: Sequence[SpanRows]) -> Any:
        return CardSpans(parts)

    def visible_rows(self, count: int) -> int:
        return self.cards[0].ops.visible_rows(count)

    def closing_windows(self, count: int, num_spans: int, num_rows: int) -> int:
        return self.cards[0].ops.closing_windows(count, num_spans, num_rows)

    def passing(self, run: Callable[[P], Any], batch: P) -> Any:
        return self.cards[0].ops.passing(run, batch)

    def hyper_out_in(self, streams: Any, output: Any, mix: Any, weights: HyperWeights, settings: HyperSettings) -> Any:
        """Where the next part is on another card, only the finished streams go there."""
        assert isinstance(weights.mix, Placed)
        number = weights.mix.card
        if self.owner(streams) == number:
            return _Operation(self, "hyper_out_in")(streams, output, mix, weights, settings)
        streams = self.cards[number].take(self.hyper_out(streams, output, mix))
        return (streams, *self.hyper_in(streams, weights, settings))

    def host(self, x: Any) -> Any:
        return x.values if isinstance(x, Everywhere | Parameter) else self.cards[self.owner(x)].ops.host(x)

    def card_of(self, layer: int) -> int:
        """The number of the card with a layer; what comes behind the last is with it."""
        found = (number for number, card in enumerate(self.cards) if layer < card.end_layer)
        return next(found, len(self.cards) - 1)

    def owner(self, array: Any) -> int:
        """The number of the card on which an array lies; the first one for what lies on none."""
        return next((number for number, card in enumerate(self.cards) if card.owns(array)), 0)

    def _layer_of(self, name: str) -> int:
        return layer_of(name, self._last_layer)


@dataclass(frozen=True, slots=True)
class _Operation:
    """One operation of the cards' backends."""

    ops: LayeredOps
    name: str

    def __call__(self, *given: Any, **named: Any) -> Any:
        number = self._card(given)
        card = self.ops.cards[number]
        with card.current():
            moved = [self._on_card(value, number, card) for value in given]
            named = {name: self._on_card(value, number, card) for name, value in named.items()}
            return getattr(card.ops, self.name)(*moved, **named)

    def _card(self, given: Sequence[Any]) -> int:
        if self.name in _BY_LAYER:
            return self.ops.card_of(given[1])
        placed = _first_placed(given)
        return self.ops.owner(given[0]) if placed is None else placed.card

    def _on_card(self, value: Any, number: int, card: Card) -> Any:
        """An argument as the card's backend takes it."""
        if isinstance(value, Placed):
            return value.weight
        if isinstance(value, Everywhere | Parameter | CardSpans):
            return value.on(number, card)
        if isinstance(value, list | tuple):
            return type(value)(self._on_card(part, number, card) for part in value)
        if is_dataclass(value) and not isinstance(value, type):
            held = {field.name: getattr(value, field.name) for field in fields(value)}
            moved = {name: self._on_card(part, number, card) for name, part in held.items()}
            changed = {name: part for name, part in moved.items() if part is not held[name]}
            return replace(value, **changed) if changed else value
        return value if card.owns(value) else card.take(value)


def _first_placed(values: Sequence[Any]) -> Placed | None:
    """The first weight among arguments, also inside groups of weights."""
    for value in values:
        inside = [value] if isinstance(value, Placed) else _inside(value)
        found = next((part for part in inside if isinstance(part, Placed)), None)
        if found is not None:
            return found
    return None


def _inside(value: Any) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return ()
