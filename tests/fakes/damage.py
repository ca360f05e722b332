"""JSON bodies made wrong at one place: another type, a member missing or too much, an item twice."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

ODD_VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 300, 2**31, 2**63, 2**64 - 1, -(2**63), 0.5, 1.0, -0.0, 1e300, 1e-300),
    *("", "x", "none", "<｜User｜>", "</think>", "\u0000", "\ufeff", 'é\n"\\'),
    *([], [[]], [None], ["x"], {}, {"x": 1}, {"type": "x"}, {"type": None}, {"function": None}, [{"type": "text"}]),
]
odd_values = st.sampled_from(ODD_VALUES)
Place = tuple[Any, Any]  # a list or an object, and the index or key of one of its members


def places(value: Any) -> Iterator[Place]:
    """Every member of every list and object within."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield value, key
        yield from places(member)


def _replaced(draw: st.DrawFn, parent: Any, key: Any) -> None:
    parent[key] = deepcopy(draw(odd_values))  # further damage is to this one


def _removed(draw: st.DrawFn, parent: Any, key: Any) -> None:
    del parent[key]


def _moved_last(draw: st.DrawFn, parent: Any, key: Any) -> None:
    member = parent.pop(key)
    if isinstance(parent, dict):
        parent[key] = member
    else:
        parent.append(member)


def _repeated(draw: st.DrawFn, parent: Any, key: Any) -> None:
    if isinstance(parent, dict):
        parent[draw(st.sampled_from(["x", "type", "name", "content", "role", "id"]))] = deepcopy(parent[key])
    else:
        parent.insert(key, deepcopy(parent[key]))


def _exchanged(draw: st.DrawFn, parent: Any, key: Any) -> None:
    other = draw(st.sampled_from(list(parent) if isinstance(parent, dict) else range(len(parent))))
    parent[key], parent[other] = deepcopy(parent[other]), parent[key]


DAMAGES: list[Callable[[st.DrawFn, Any, Any], None]] = [_replaced, _removed, _moved_last, _repeated, _exchanged]


@st.composite
def damaged(draw: st.DrawFn, bodies: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """One of the bodies with one to three places made wrong."""
    body = deepcopy(draw(bodies))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        found = list(places(body))
        if found:
            parent, key = draw(st.sampled_from(found))
            draw(st.sampled_from(DAMAGES))(draw, parent, key)
    return body


def maybe_damaged(bodies: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """As often whole as not."""
    return st.one_of(bodies, damaged(bodies))
