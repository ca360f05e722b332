"""JSON answers: the values are spoken in the question, the object is the answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from nano.curriculum.texts import Exchange
from nano.curriculum.values import Maker, email, invented, word, words
from nano.curriculum.words import CITIES, FIRST_NAMES

Value = str | int | float | bool
_COLOURS = ["red", "green", "blue", "black", "white", "yellow"]
_FIELDS: dict[str, Maker[Value]] = {
    "name": lambda r: r.choice(FIRST_NAMES),
    "age": lambda r: r.randint(1, 99),
    "city": lambda r: r.choice(CITIES),
    "color": lambda r: r.choice(_COLOURS),
    "count": lambda r: r.randint(1, 99),
    "title": lambda r: words(r, 1, 2),
    "price": lambda r: r.randint(1, 99) + 0.5,
    "active": lambda r: r.random() < 0.5,
    "email": email,
    "id": lambda r: r.randint(1, 99),
    "status": word,
    "size": lambda r: r.randint(1, 99),
}
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


@dataclass(frozen=True)
class JsonExchange(Exchange):
    """An exchange whose answer is one JSON object."""

    fields: Mapping[str, Value]

    def schema(self) -> dict[str, object]:
        properties = {key: {"type": _TYPES[type(value)]} for key, value in self.fields.items()}
        return {"type": "object", "properties": properties, "required": list(self.fields)}


def spoken(value: object) -> str:
    """A value as a user writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, list) else str(value)


def json_object(rng: Random) -> JsonExchange:
    keys = rng.sample([*_FIELDS, invented(rng)], rng.randint(1, 4))
    fields = {key: _FIELDS.get(key, word)(rng) for key in keys}
    listed = ", ".join(f"{key} {spoken(value)}" for key, value in fields.items())
    ask = ["Give me a JSON object with {}.", "Return JSON with {}", "Write JSON: {}", "Make a JSON object: {}"]
    return JsonExchange(rng.choice(ask).format(listed), json.dumps(fields), "I will write the JSON.", fields)
