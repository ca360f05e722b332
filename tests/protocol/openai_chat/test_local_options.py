"""Thinking, sampling, limits and forms as real clients ask for them, under the local policy (spec/demand.md P09)."""

from typing import Any

import pytest

from protocol.openai_chat.chat_bodies import ASK, RUN, converted, prompt_of
from whitedwarf.conversation.options import ConstraintKind
from whitedwarf.conversation.response_format import JsonObject, JsonSchema, PlainText, Regex
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse_options import ParseMode, ParseStart
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.openai_chat.convert import convert
from whitedwarf.protocol.policy import local

NO_THINKING: list[dict[str, Any]] = [
    {"thinking": {"type": "disabled"}},
    {"thinking": False},
    {"think": False},
    {"enable_thinking": False},
    {"chat_template_kwargs": {"thinking": False}},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"reasoning_effort": "none"},
    {"reasoning": {"effort": "none"}},
    {"reasoning": {"enabled": False}},
    {"output_config": {"effort": "none"}},
]
BEGUN = {"role": "assistant", "content": "\nOnce", "prefix": True}


@pytest.mark.parametrize("version", ModelVersion)
@pytest.mark.parametrize("switch", NO_THINKING, ids=str)
def test_every_way_to_switch_thinking_off_gives_the_same_prompt(switch: dict[str, Any], version: ModelVersion) -> None:
    expected = prompt_of(version=version, thinking={"type": "disabled"})
    assert expected.endswith("</think>")
    assert prompt_of(version=version, **switch) == expected


def test_an_unknown_way_to_think_is_refused_with_the_known_ones() -> None:
    for options in ({"thinking": {"type": "off"}}, {"reasoning_effort": "extreme"}, {"enable_thinking": "no"}):
        with pytest.raises(MalformedRequest, match="expected one of "):
            converted(**options)
    with pytest.raises(MalformedRequest):
        converted(thinking=False, reasoning_effort="extreme")


def test_thinking_is_the_default_and_as_hard_as_asked() -> None:
    assert converted().conversation.reasoning_effort is ReasoningEffort.HIGH
    assert converted(reasoning={"effort": "max"}).conversation.reasoning_effort is ReasoningEffort.MAX
    assert converted(reasoning_effort="minimal").conversation.reasoning_effort is ReasoningEffort.LOW
    assert converted().reply.is_thinking


def test_any_model_name_will_do_and_none_as_well() -> None:
    policy = local(ModelVersion.V4)
    assert convert({"model": "gpt-4o", "messages": [ASK]}, policy).model == "gpt-4o"
    for body in ({"messages": [ASK]}, {"messages": [ASK], "model": None}, {"messages": [ASK], "model": ""}):
        assert convert(body, policy).model == "deepseek-v4"
        assert convert(body, policy).version is ModelVersion.V4


def test_thinking_leaves_sampling_to_the_engine() -> None:
    options = converted(temperature=0.5, top_p=0.5, top_k=3, min_p=0.5, seed=7).inference
    assert (options.temperature, options.top_k, options.min_p, options.seed) == (1.0, None, None, 7)


def test_options_that_are_not_followed_are_told() -> None:
    assert converted(temperature=0.5, top_k=3).warnings == (
        "Ignored while thinking, which has settings of its own: temperature, top_k.",
    )
    assert converted(max_tokens=2**31).warnings == ("max_tokens was lowered to 393216, the most that is possible.",)
    assert converted(temperature=1, top_p=1, top_k=0, max_tokens=5).warnings == ()
    assert converted(temperature=0.5, top_k=3, thinking=False).warnings == ()


def test_without_thinking_all_sampling_is_the_client_s() -> None:
    options = converted(
        thinking=False, temperature=0.5, top_p=0.25, top_k=3.0, min_p=0.5, presence_penalty=1, frequency_penalty=-1
    ).inference
    assert (options.temperature, options.top_p, options.top_k, options.min_p) == (0.5, 0.25, 3, 0.5)
    assert (options.presence_penalty, options.frequency_penalty) == (1.0, -1.0)


def test_tokens_are_favoured_by_their_ids() -> None:
    wanted = ((5, 2.5), (7, -100.0))
    assert converted(thinking=False, logit_bias={"5": 2.5, "7": -100}).inference.logit_bias == wanted
    assert converted(thinking=False, logit_bias=[[5, 2.5], [7, -100]]).inference.logit_bias == wanted
    assert converted(logit_bias=None).inference.logit_bias == ()
    (told,) = converted(logit_bias={"5": 1}, presence_penalty=1, frequency_penalty=0).warnings
    assert told.endswith(": presence_penalty, logit_bias.")


@pytest.mark.parametrize(
    "bias",
    [
        *("text", 5, {"word": 1}, {"-1": 1}, {"5": 101}, {"5": "1"}, {"5": True}, {"5": None}, {"1e3": 1}, {"٣": 1}),
        *([5], [[5]], [[5, 1, 2]], [["five", 1]], [[True, 1]], {str(token): 1 for token in range(1025)}),
        {"9" * 5000: 1},
    ],
)
def test_a_bias_that_is_none_is_refused_by_name(bias: Any) -> None:
    with pytest.raises(MalformedRequest, match=r"^logit_bias") as refused:
        converted(logit_bias=bias)
    assert len(str(refused.value)) < 400


def test_no_limit_and_no_seed_have_their_spellings() -> None:
    options = converted(thinking=False, top_k=-1, seed=-1).inference
    assert (options.top_k, options.seed) == (None, None)
    assert converted(thinking=False, top_k=0).inference.top_k is None


def test_the_limit_of_tokens_has_two_names_and_a_bound() -> None:
    assert converted(max_completion_tokens=5).inference.max_tokens == 5
    assert converted(max_tokens=7, max_completion_tokens=5).inference.max_tokens == 5
    assert converted(max_tokens=100.0).inference.max_tokens == 100
    assert converted(max_tokens=2**40).inference.max_tokens == 393_216
    assert converted().inference.max_tokens is None


def test_no_tokens_at_all_are_refused() -> None:
    with pytest.raises(RefusedRequest):
        converted(max_tokens=0)
    with pytest.raises(MalformedRequest, match=r"^max_tokens: "):
        converted(max_tokens=-1)


def test_alternatives_ask_for_log_probabilities() -> None:
    options = converted(top_logprobs=3).inference
    assert (options.logprobs, options.top_logprobs) == (True, 3)
    with pytest.raises(RefusedRequest):
        converted(top_logprobs=21)


def test_stop_strings_are_those_that_say_something() -> None:
    assert converted(stop=["a", "", "a", "b"]).parsing.stop_strings == ("a", "b")
    assert converted(stop="").parsing.stop_strings == ()
    assert len(converted(stop=[str(n) for n in range(40)]).parsing.stop_strings) == 40


def test_several_answers_are_asked_for_with_n() -> None:
    assert converted(n=1).inference == converted(n=8).inference == converted().inference
    assert [converted(n=count).num_choices for count in (None, 1, 2, 8)] == [1, 1, 2, 8]
    for count in (0, -1, 9, 256, True, False, 1.5, 2.0, "2", [2]):
        with pytest.raises(MalformedRequest, match="n: expected a whole number of answers from 1 to 8, got"):
            converted(n=count)


def test_stream_options_count_only_where_there_is_a_stream() -> None:
    usage = {"include_usage": True}
    assert converted(stream=True, stream_options=usage).reply.usage_chunk
    assert not converted(stream=True, stream_options={}).reply.usage_chunk
    assert not converted(stream=True).reply.usage_chunk
    assert not converted(stream_options=usage).is_streamed


def test_json_needs_no_word_of_it_in_the_prompt() -> None:
    for wanted in ({"type": "json_object"}, "json_object"):
        made = converted(response_format=wanted)
        assert made.conversation.response_format == JsonObject()
        assert made.parsing.parse_json_output
        assert made.constraint is not None
        assert made.constraint.kind is ConstraintKind.JSON


def test_a_schema_is_found_wherever_it_stands() -> None:
    schema = {"type": "object", "title": "T"}
    for wanted in (
        {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}},
        {"type": "json_schema", "name": "n", "schema": schema, "strict": True},
        {"type": "json_object", "schema": schema},
    ):
        made = converted(response_format=wanted)
        assert made.conversation.response_format == JsonSchema(schema)
        assert made.constraint is not None
        assert made.constraint.schema == '{"type":"object","title":"T"}'
    assert converted(response_format={"type": "regex", "regex": "a+"}).conversation.response_format == Regex("a+")
    assert converted(response_format=None).conversation.response_format == PlainText()


def test_what_is_no_form_is_refused() -> None:
    for wanted in ("xml", {"type": "xml"}, 5, {}, {"type": "json_schema"}, {"type": "regex"}):
        with pytest.raises(MalformedRequest, match=r"^response_format: "):
            converted(response_format=wanted)
    with pytest.raises(RefusedRequest, match=r"^Invalid json schema: "):
        converted(response_format={"type": "json_schema", "json_schema": {"schema": 5}})


def test_tools_and_a_form_go_together() -> None:
    made = converted(tools=[RUN], response_format={"type": "json_object"})
    assert made.constraint is not None
    assert made.constraint.kind is ConstraintKind.TOOL_CALL


def test_what_nothing_reads_is_told() -> None:
    made = converted(user="me", store=False, think=True, max_completion_tokens=5, top_k=1, prompt_cache_key="k")
    assert made.unknown_fields == ("user", "store", "prompt_cache_key")


def test_answers_are_read_with_repairs() -> None:
    assert converted().parsing.mode is ParseMode.SALVAGE
    assert converted().parsing.start is ParseStart.REASONING
    assert converted(thinking=False).parsing.start is ParseStart.CONTENT


def test_a_prefix_is_gone_on_from() -> None:
    assert converted(ASK, BEGUN).parsing.start is ParseStart.CONTENT_CONTINUED
    assert converted(ASK, BEGUN, thinking=False).parsing.start is ParseStart.CONTENT_CONTINUED
    thought = {"role": "assistant", "content": "", "reasoning_content": "Hm", "prefix": True}
    assert converted(ASK, thought).parsing.start is ParseStart.REASONING_CONTINUED
    assert converted(ASK, {**thought, "reasoning_content": ""}).parsing.start is ParseStart.REASONING
    assert converted(ASK, thought, thinking=False).parsing.start is ParseStart.CONTENT


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": "hot"},
        {"top_p": []},
        {"top_k": 0.5},
        {"top_k": True},
        {"min_p": 2},
        {"min_p": "x"},
        {"seed": "x"},
        {"stream": 1},
        {"stream_options": 5},
        {"stop": 5},
        {"model": 5},
        {"logprobs": 5},
        {"n": 1.5},
    ],
    ids=str,
)
def test_a_wrong_type_is_refused_with_the_name_of_the_member(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(MalformedRequest, match=f"^{name}: "):
        convert({"messages": [ASK], **options}, local(ModelVersion.V4))


@pytest.mark.parametrize("body", [None, [], "x", 5, {}, {"messages": None}, {"messages": {}}], ids=str)
def test_what_is_no_request_is_refused(body: Any) -> None:
    with pytest.raises(MalformedRequest):
        convert(body, local(ModelVersion.V4))


def test_a_request_without_messages_is_refused() -> None:
    with pytest.raises(RefusedRequest, match=r"^Empty input messages$"):
        convert({"messages": []}, local(ModelVersion.V4))
