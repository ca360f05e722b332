"""The other settings of a request under our own policy."""

from typing import Any

import pytest

from protocol.openai_responses.bodies import Body, converted, user
from whitedwarf.conversation.message import SystemMessage, UserMessage
from whitedwarf.conversation.response_format import JsonObject, JsonSchema
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.errors import RequestError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse_options import ParseMode, ParseStart
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.openai_responses.convert import convert
from whitedwarf.protocol.policy import local

POLICY = local(ModelVersion.V41)


def test_any_model_or_none_is_the_one_that_runs() -> None:
    assert convert({"input": "x"}, POLICY).model == "deepseek-v4"
    assert convert({"input": "x", "model": "gpt-5.5"}, POLICY).model == "gpt-5.5"


def test_instructions_are_the_first_system_message() -> None:
    found = convert({"input": "x", "instructions": "Be short."}, POLICY)
    assert found.conversation.messages == (SystemMessage("Be short."), UserMessage("x"))


@pytest.mark.parametrize("name", ["previous_response_id", "conversation", "prompt"])
def test_what_refers_to_stored_things_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(RefusedRequest, match=f"{name}: this server stores no .* send the full input"):
        convert({"input": "x", name: "some_1"}, POLICY)
    assert convert({"input": "x", name: None}, POLICY).unknown_fields == ()


@pytest.mark.parametrize(
    "said",
    [
        {"reasoning": {"effort": "none"}},
        {"reasoning_effort": "none"},
        {"thinking": {"type": "disabled"}},
        {"enable_thinking": False},
        {"think": False},
        {"chat_template_kwargs": {"thinking": False}},
    ],
)
def test_every_way_to_switch_thinking_off_works(said: Body) -> None:  # demand.md P09
    found = converted(user(), **said)
    assert not found.conversation.is_thinking
    assert found.parsing.start is ParseStart.CONTENT
    assert not found.reply.is_thinking


def test_an_unknown_effort_is_refused_with_the_known_ones() -> None:
    with pytest.raises(MalformedRequest, match=r"reasoning\.effort: expected one of none, minimal, low"):
        converted(user(), reasoning={"effort": "enormous"})


@pytest.mark.parametrize(
    ("summary", "summarizes"), [("auto", True), ("concise", True), ("detailed", True), (None, False)]
)
def test_thoughts_are_told_as_a_summary_where_one_is_asked_for(summary: str | None, summarizes: bool) -> None:
    assert converted(user(), reasoning={"summary": summary, "effort": "max"}).reply.summarizes is summarizes
    assert not converted(user(), reasoning={"summary": "none"}).reply.summarizes
    assert converted(user(), reasoning={"effort": "max"}).conversation.reasoning_effort is ReasoningEffort.MAX


def test_settings_of_sampling_are_kept_where_the_model_does_not_think() -> None:
    asked = {"temperature": 0.5, "top_p": 0.25, "top_k": 20, "min_p": 0.5, "seed": 7, "stop": ["END", ""]}
    found = converted(user(), reasoning={"effort": "none"}, **asked)
    options = found.inference
    assert (options.temperature, options.top_p, options.top_k, options.min_p) == (0.5, 0.25, 20, 0.5)
    assert options.seed == 7
    assert found.parsing.stop_strings == ("END",)
    assert found.parsing.mode is ParseMode.SALVAGE
    assert found.unknown_fields == ()


def test_settings_that_thinking_does_not_follow_are_told() -> None:
    found = converted(user(), temperature=0.5, top_k=20)
    assert (found.inference.temperature, found.inference.top_k) == (1.0, None)
    assert found.warnings == ("Ignored while thinking, which has settings of its own: temperature, top_k.",)


def test_more_tokens_than_possible_are_lowered_and_none_are_refused() -> None:
    found = converted(user(), max_output_tokens=10**9)
    assert found.inference.max_tokens == 393_216
    assert found.warnings == ("max_output_tokens was lowered to 393216, the most that is possible.",)
    with pytest.raises(RefusedRequest, match="max_tokens"):
        converted(user(), max_output_tokens=0)


def test_json_needs_no_magic_word() -> None:
    assert isinstance(converted(user(), text={"format": "json_object"}).conversation.response_format, JsonObject)


def test_a_schema_is_told_and_enforced_as_given() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    form = {"type": "json_schema", "schema": schema, "strict": True}
    found = converted(user(), text={"format": form})
    assert found.conversation.response_format == JsonSchema(schema)
    assert found.constraint is not None
    assert found.constraint.schema == '{"type":"object","properties":{"n":{"type":"integer"}}}'


@pytest.mark.parametrize("form", [{"type": "grammar"}, {"type": "json_schema", "schema": 5}, {"type": "json_schema"}])
def test_a_form_that_cannot_be_kept_is_refused(form: Any) -> None:  # demand.md P26
    with pytest.raises(RequestError):
        converted(user(), text={"format": form})


def test_members_that_nothing_reads_are_named() -> None:
    found = converted(user(), store=False, metadata={}, verbosity="low")
    assert found.unknown_fields == ("store", "metadata", "verbosity")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"model": 5}, "model: "),
        ({"stream": "yes"}, "stream: "),
        ({"temperature": "hot"}, "temperature: "),
        ({"min_p": 2}, "min_p: expected a number from 0 to 1"),
        ({"text": "json"}, "text: expected an object"),
        ({"reasoning": {"summary": "long"}}, "reasoning.summary: unknown variant `long`"),
        ({"instructions": 5}, "instructions: expected a string"),
        ({"tools": {}}, "tools: expected a list"),
    ],
)
def test_an_error_names_the_member_that_it_is_about(more: Body, told: str) -> None:
    with pytest.raises(MalformedRequest) as error:
        converted(user(), **more)
    assert str(error.value).startswith(told)


def test_a_body_that_is_no_object_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="expected a JSON object, got a list"):
        convert([], POLICY)
