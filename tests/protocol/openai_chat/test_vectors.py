"""Every official Chat request vector: the same conversion, or the same error."""

import pytest

from protocol.vectors import Vector, converted, expected, load
from whitedwarf.protocol.failures import InvalidJson
from whitedwarf.protocol.json_body import read_json
from whitedwarf.protocol.openai_chat.convert import convert

VECTORS = load("chat")


def is_json(vector: Vector) -> bool:
    return not str(vector["expect"].get("message")).startswith("invalid JSON request")


def read_vector(vector: Vector) -> Vector:
    """The vector with its body read, where it comes as text."""
    return vector if "request" in vector else vector | {"request": read_json(vector["request_raw"])}


@pytest.mark.parametrize("vector", list(filter(is_json, VECTORS)), ids=lambda vector: vector["id"])
def test_a_request_is_converted_as_the_official_library_does(vector: Vector) -> None:
    assert converted(read_vector(vector), convert) == expected(vector)


@pytest.mark.parametrize(
    "vector", [vector for vector in VECTORS if not is_json(vector)], ids=lambda vector: vector["id"]
)
def test_what_is_no_json_is_refused_as_the_official_library_does(vector: Vector) -> None:
    with pytest.raises(InvalidJson) as caught:
        read_vector(vector)
    assert str(caught.value) == vector["expect"]["message"]
