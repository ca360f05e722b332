"""The 200 official parse vectors against the strict parser, by facts: see parse_facts.py.

What a dialect cannot tell is left out on both sides, by name: Chat says `stop` for a stop string; Responses says
`completed` for stop, stop string and tool calls; custom tools of Responses show an excerpt of the arguments, which the
Responses builder (not the parser) makes, so there the calls' raw arguments are compared by count of calls only.
"""

import pytest

from prompt.parse_facts import Fact, Vector, load_vectors, official_pushes, our_pushes
from whitedwarf.prompt.tokenizer import Tokenizer

VECTORS = load_vectors()


def as_told(fact: Fact, protocol: str) -> Fact:
    kind, value = fact
    if kind != "finish":
        return fact
    if value.startswith("stop_string") and protocol == "chat":
        return ("finish", "stop")
    if protocol == "responses" and value not in ("length", "content_filter"):
        return ("finish", "completed")
    return fact


def without_arguments(pushes: list[list[Fact]]) -> list[list[Fact]]:
    return [[fact for fact in push if fact[0] not in ("arguments", "custom input")] for push in pushes]


def shows_excerpts(vector: Vector) -> bool:
    tools = vector["request"].get("tools", [])
    return vector["protocol"] == "responses" and any(tool["type"] in ("custom", "tool_search") for tool in tools)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_every_push_gives_the_official_deltas(vector: Vector, deepseek: Tokenizer) -> None:
    ours, _ = our_pushes(vector, deepseek)
    told = [[as_told(fact, vector["protocol"]) for fact in push] for push in ours]
    official = official_pushes(vector)
    if shows_excerpts(vector):
        told, official = without_arguments(told), without_arguments(official)
    assert told == official


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_the_counts_and_an_early_stop_are_the_official_ones(vector: Vector, deepseek: Tokenizer) -> None:
    _, last = our_pushes(vector, deepseek)
    assert (last.stop_string is not None) == vector["expect"]["stopped_early"]
    usage = vector["expect"]["final"]["usage"]
    assert last.completion_tokens == usage.get("completion_tokens", usage.get("output_tokens"))
    details = usage.get("completion_tokens_details", usage.get("output_tokens_details"))
    if details is not None:  # Messages does not count reasoning, Chat only where the request thinks
        assert last.reasoning_tokens == details["reasoning_tokens"]


def test_there_are_two_hundred_vectors_of_all_three_protocols() -> None:
    assert len(VECTORS) == 200
    assert {vector["protocol"] for vector in VECTORS} == {"chat", "responses", "messages"}
