"""The official JSON Schema test suite: a schema is refused, or what its grammar lets through is valid."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from prompt.drawing import drawn_ids, may_be
from whitedwarf.errors import RequestError
from whitedwarf.prompt.grammar import Grammar, Grammars
from whitedwarf.prompt.tokenizer import Tokenizer

SUITE = json.loads((Path(__file__).parents[1] / "golden" / "json_schema" / "draft2020-12.json").read_text())
SPELLINGS = [(",", ":"), (", ", ": ")]
DRAWS = 3
FOLLOWED, ACCEPTED = 172, 456  # as docs/forms.md has it; the rest is refused with a reason, or is spelt otherwise


@pytest.fixture(scope="session")
def grammars(nano: Tokenizer) -> Grammars:
    return Grammars(nano)


def followed(grammars: Grammars, schema: Any) -> Grammar | None:
    try:
        return grammars.of_schema(schema)
    except RequestError:
        return None


def accepts(grammar: Grammar, tokenizer: Tokenizer, value: Any) -> bool:
    return any(
        may_be(grammar, tokenizer, tokenizer.encode(json.dumps(value, ensure_ascii=False, separators=spelling)))
        for spelling in SPELLINGS
    )


@pytest.mark.parametrize("name", SUITE)
def test_nothing_that_a_schema_forbids_is_let_through(grammars: Grammars, nano: Tokenizer, name: str) -> None:
    for group in SUITE[name]:
        grammar = followed(grammars, group["schema"])
        for case in group["tests"] if grammar is not None else ():
            if not case["valid"]:
                assert grammar is not None
                assert not accepts(grammar, nano, case["data"]), (group["description"], group["schema"], case["data"])


@pytest.mark.parametrize("name", SUITE)
def test_whatever_is_drawn_is_valid(grammars: Grammars, nano: Tokenizer, name: str) -> None:
    for group in SUITE[name]:
        grammar = followed(grammars, group["schema"])
        for seed in range(DRAWS) if grammar is not None else ():
            assert grammar is not None
            ids = drawn_ids(grammar, nano, seed)
            if ids is not None:
                Draft202012Validator(group["schema"]).validate(json.loads(nano.decode(ids)))


def test_most_schemas_are_followed_and_most_of_what_they_allow_may_come(grammars: Grammars, nano: Tokenizer) -> None:
    groups = [(group, followed(grammars, group["schema"])) for listed in SUITE.values() for group in listed]
    known = [(group, grammar) for group, grammar in groups if grammar is not None]
    may = [accepts(grammar, nano, case["data"]) for group, grammar in known for case in group["tests"] if case["valid"]]
    assert len(known) >= FOLLOWED
    assert sum(may) >= ACCEPTED
