"""Schemas by the hundred, of the shapes of the JSON Schema test suite: whatever answers, at any temperature, is valid.

The same of calls of strict tools: our own parser reads them, and finds the offered tool and valid arguments.
WHITEDWARF_SCHEMAS says how many, of tools half of it; 500 take more than a minute.
"""

import json
import os
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from engine.bits import nano as loaded_nano
from fakes.gates import PATIENCE_S
from fakes.models import FakeModel
from prompt.streams import parse_ids
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import FinishReason, GenerateOptions, SamplingOptions
from whitedwarf.errors import RequestError
from whitedwarf.model.base import Model
from whitedwarf.prompt.call_grammar import WantedCalls
from whitedwarf.prompt.dsml import V4, V41
from whitedwarf.prompt.grammar import Grammar, Grammars
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.form_guide import FormGuide

NUM_SCHEMAS = int(os.environ.get("WHITEDWARF_SCHEMAS", "100"))
NUM_TOOLS = NUM_SCHEMAS // 2
TEMPERATURES = (0.0, 0.7, 1.0, 2.0)
NAMES = ("id", "name", "größe", "a b", "type", "x/y", "$ref", 'quote"d', "n", "items")
CHECKER = FormatChecker(["date", "uuid", "ipv4"])
MANY = 10_000  # requests that may wait
WORDS = ("red", "", "ä", 'say "hi"', "line\nbreak", "0")


@CHECKER.checks("date-time", raises=ValueError)
def is_date_time(value: object) -> bool:
    return not isinstance(value, str) or (is_time("".join(value[10:][1:])) and bool(datetime.fromisoformat(value)))


@CHECKER.checks("time")
def is_time(value: object) -> bool:
    """Of RFC 3339: python's own reading knows no need of an offset."""
    clock = r"([01]\d|2[0-3]):[0-5]\d"
    return not isinstance(value, str) or bool(re.fullmatch(rf"{clock}:([0-5]\d|60)(\.\d+)?([Zz]|[+-]{clock})", value))


def scalar(dice: random.Random) -> Any:
    return dice.choice([None, True, False, dice.randint(-50, 50), dice.choice(WORDS), 2.5])


def string(dice: random.Random) -> dict[str, Any]:
    least = dice.randint(0, 3)
    return dice.choice(
        [
            {"type": "string", "maxLength": dice.randint(0, 8)},
            {"type": "string", "minLength": least, "maxLength": least + dice.randint(0, 6)},
            {"type": "string", "pattern": dice.choice(["^[a-c]{1,4}$", r"^\d{3}-\d{4}$", "^(ab|c)+d$", "^.{0,5}$"])},
            {"type": "string", "format": dice.choice(["date", "time", "date-time", "uuid", "ipv4"])},
            {"enum": dice.sample(WORDS, dice.randint(1, 4))},
        ]
    )


def number(dice: random.Random) -> dict[str, Any]:
    low = dice.randint(-100, 100)
    return dice.choice(
        [
            {"type": "integer"},
            {"type": "integer", "minimum": low, "maximum": low + dice.randint(0, 500)},
            {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": low + dice.randint(2, 50)},
            {"type": "integer", "multipleOf": dice.choice([2, 5, 10]), "minimum": 0, "maximum": 1000},
            {"type": "number", "minimum": low, "maximum": low + 1.5},
        ]
    )


def array(dice: random.Random, depth: int) -> dict[str, Any]:
    least = dice.randint(0, 2)
    sized = {"type": "array", "minItems": least, "maxItems": least + dice.randint(0, 2)}
    if dice.random() < 0.3:
        first = [schema(dice, depth - 1) for _ in range(dice.randint(1, 2))]
        return {"type": "array", "prefixItems": first, "items": False, "minItems": len(first)}
    return {**sized, "items": schema(dice, depth - 1)}


def mapping(dice: random.Random, depth: int) -> dict[str, Any]:
    names = dice.sample(NAMES, dice.randint(0, 4))
    made: dict[str, Any] = {
        "type": "object",
        "properties": {name: schema(dice, depth - 1) for name in names},
        "required": [name for name in names if dice.random() < 0.6],
        "additionalProperties": dice.choice([False, False, schema(dice, 0)]),
    }
    if dice.random() < 0.2:
        made["maxProperties"] = len(names) + 1
    return made


def schema(dice: random.Random, depth: int) -> dict[str, Any]:
    """One of some depth at most; every keyword that is enforced comes up sooner or later."""
    makers = [string, number, lambda dice: {"enum": [scalar(dice) for _ in range(dice.randint(1, 4))]}]
    makers += [lambda dice: {"const": scalar(dice)}, lambda dice: {"type": dice.choice(["boolean", "null"])}]
    if depth > 0:
        makers += [lambda dice: array(dice, depth), lambda dice: mapping(dice, depth)] * 2
        makers += [lambda dice: {"anyOf": [schema(dice, depth - 1) for _ in range(dice.randint(1, 3))]}]
        makers += [lambda dice: {"oneOf": [{"type": "null"}, {"type": "boolean"}, string(dice)]}]
        makers += [lambda dice: {"allOf": [{"type": "object"}, mapping(dice, depth - 1)]}]
    return dice.choice(makers)(dice)


def with_definitions(dice: random.Random) -> dict[str, Any]:
    """Also of the kind that refers to itself."""
    node = {
        "type": "object",
        "properties": {"n": number(dice), "next": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}},
    }
    return {"$defs": {"x": {**node, "required": ["n", "next"], "additionalProperties": False}}, "$ref": "#/$defs/x"}


def schemas() -> Iterator[tuple[int, dict[str, Any]]]:
    for seed in range(NUM_SCHEMAS):
        dice = random.Random(seed)
        yield seed, with_definitions(dice) if seed % 10 == 0 else schema(dice, 3)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return loaded_nano().tokenizer()


@pytest.fixture(scope="module")
def forms(tokenizer: Tokenizer) -> list[tuple[int, dict[str, Any], Grammar]]:
    grammars, found = Grammars(tokenizer), []
    for seed, one in schemas():
        with suppress(RequestError):  # such as two alternatives that may both be true
            found.append((seed, one, grammars.of_schema(one)))
    assert len(found) >= 0.9 * NUM_SCHEMAS
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nano", "random"])
def test_every_answer_that_ends_is_valid(
    kind: str, forms: list[tuple[int, dict[str, Any], Grammar]], tokenizer: Tokenizer
) -> None:
    model: Model = loaded_nano().transformer if kind == "nano" else FakeModel(vocab_size=tokenizer.vocab_size)
    prompt = tokenizer.encode("An example, please.")
    with Engine(model, max_parallel=8, max_waiting=MANY) as engine:
        asked = []
        for seed, one, form in forms:
            sampling = SamplingOptions(TEMPERATURES[seed % 4], min_p=0.0, seed=seed + 1)
            guide = FormGuide(form, tokenizer, is_thinking=False)
            options = GenerateOptions(160, frozenset({tokenizer.special_id(SpecialToken.EOS)}), sampling)
            asked.append((one, engine.submit(prompt, options, guide=guide)))
        num_whole = 0
        for one, generation in asked:
            answer = generation.result(PATIENCE_S)
            if answer.finished.reason is FinishReason.STOP:
                said = json.loads(tokenizer.decode(answer.ids))
                Draft202012Validator(one, format_checker=CHECKER).validate(said)
                num_whole += 1
    assert num_whole >= len(forms) / 2


def strict_tools() -> Iterator[tuple[int, ToolDefinition]]:
    for seed in range(NUM_TOOLS):
        dice = random.Random(f"tool {seed}")
        names = dice.sample(NAMES[:6], dice.randint(0, 3))
        parameters = {
            "type": "object",
            "properties": {name: string(dice) if dice.random() < 0.4 else schema(dice, 2) for name in names},
            "required": [name for name in names if dice.random() < 0.6],
            "additionalProperties": False,
        }
        yield seed, ToolDefinition(f"tool_{seed}", None, parameters, is_strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nano", "random"])
def test_every_call_of_a_strict_tool_is_one_of_its_schema(kind: str, tokenizer: Tokenizer) -> None:
    model: Model = loaded_nano().transformer if kind == "nano" else FakeModel(vocab_size=tokenizer.vocab_size)
    prompt, grammars = tokenizer.encode("Call it, please."), Grammars(tokenizer)
    with Engine(model, max_parallel=8, max_waiting=MANY) as engine:
        asked = []
        for seed, tool in strict_tools():
            with suppress(RequestError):
                form = grammars.of_calls([tool], (V4, V41)[seed % 2], WantedCalls(is_single=True))
                sampling = SamplingOptions(TEMPERATURES[seed // 2 % 4], min_p=0.0, seed=seed + 1)
                guide = FormGuide(form, tokenizer, is_thinking=False)
                options = GenerateOptions(200, frozenset({tokenizer.special_id(SpecialToken.EOS)}), sampling)
                asked.append((tool, engine.submit(prompt, options, guide=guide)))
        num_whole = 0
        for tool, generation in asked:
            answer = generation.result(PATIENCE_S)
            if answer.finished.reason is FinishReason.STOP:
                said = parse_ids([[token] for token in answer.ids], ParseOptions(), tokenizer)
                ((name, arguments),) = said.finished
                assert (name, said.text, said.repairs) == (tool.name, "", ())
                Draft202012Validator(tool.parameters, format_checker=CHECKER).validate(json.loads(arguments))
                num_whole += 1
    assert len(asked) >= 0.85 * NUM_TOOLS
    assert num_whole >= len(asked) / 3
