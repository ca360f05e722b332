"""What the dialects decide alike (spec/recipe.md 3 and 6)."""

import pytest

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.options import Constraint, ConstraintKind
from whitedwarf.conversation.response_format import JsonObject, JsonSchema, Regex
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.conversation.tools import ToolChoice, ToolDefinition
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import ContextLengthExceeded, RefusedRequest
from whitedwarf.protocol.policy import OFFICIAL, local
from whitedwarf.protocol.resolution import (
    check_max_tokens,
    check_temperature,
    check_top_p,
    checked_stop_strings,
    resolve_constraint,
    resolve_max_tokens,
    resolve_thinking,
    resolved_temperature,
    resolved_top_p,
    version_of,
)

LOCAL = local(ModelVersion.V4)
TOP_P_WITH_TOOLS = 0.949999988079071  # 0.95 in 32 bits
RUN = ToolDefinition("run", None, {"type": "object"})


def talk(*, is_thinking: bool = True, tools: tuple[ToolDefinition, ...] = ()) -> Conversation:
    return Conversation(is_thinking=is_thinking, tools=tools)


def test_a_model_is_known_by_its_exact_name() -> None:
    assert version_of("DeepSeek-V4-Pro", OFFICIAL) is ModelVersion.V4
    assert version_of("DeepSeek-V4.1-Flash", OFFICIAL) is ModelVersion.V41
    with pytest.raises(RefusedRequest) as caught:
        version_of("deepseek-v4-pro", OFFICIAL)
    assert str(caught.value) == (
        "The supported API model names are DeepSeek-V4-Pro, DeepSeek-V4.1-Flash, but you passed deepseek-v4-pro."
    )


def test_a_server_of_one_model_takes_any_name() -> None:
    assert version_of("gpt-4o", local(ModelVersion.V41)) is ModelVersion.V41


@pytest.mark.parametrize(
    ("effort", "meaning"),
    [
        (None, ReasoningEffort.HIGH),
        ("minimal", ReasoningEffort.LOW),
        ("low", ReasoningEffort.LOW),
        ("medium", ReasoningEffort.HIGH),
        ("high", ReasoningEffort.HIGH),
        ("xhigh", ReasoningEffort.XHIGH),
        ("ultra", ReasoningEffort.MAX),
        ("max", ReasoningEffort.MAX),
    ],
)
def test_an_effort_has_a_meaning_while_thinking_only(effort: str | None, meaning: ReasoningEffort) -> None:
    assert resolve_thinking(True, effort, OFFICIAL) == (True, meaning)
    assert resolve_thinking(None, effort, OFFICIAL) == (True, meaning)
    assert resolve_thinking(False, effort, OFFICIAL) == (False, None)


def test_an_effort_of_none_is_no_thinking_unless_thinking_is_asked_for() -> None:
    assert resolve_thinking(None, "none", OFFICIAL) == (False, None)
    assert resolve_thinking(True, "none", OFFICIAL) == (True, ReasoningEffort.HIGH)


@pytest.mark.parametrize("temperature", [-0.1, 2.1, float("inf"), float("nan")])
def test_a_temperature_out_of_range_is_refused(temperature: float) -> None:
    with pytest.raises(RefusedRequest):
        check_temperature(temperature)


@pytest.mark.parametrize("top_p", [0.0, -0.1, 1.1, float("nan")])
def test_a_top_p_out_of_range_is_refused(top_p: float) -> None:
    with pytest.raises(RefusedRequest):
        check_top_p(top_p)


def test_thinking_has_a_temperature_of_its_own() -> None:
    assert resolved_temperature(0.5, is_thinking=True) == 1.0
    assert resolved_temperature(0.5, is_thinking=False) == 0.5
    assert resolved_temperature(None, is_thinking=False) == 1.0


def test_top_p_while_thinking_depends_on_the_model() -> None:
    for policy in (OFFICIAL, LOCAL):
        assert resolved_top_p(0.5, ModelVersion.V41, talk(), policy) == TOP_P_WITH_TOOLS
        assert resolved_top_p(0.97, ModelVersion.V41, talk(), policy) == 0.97
        assert resolved_top_p(0.5, ModelVersion.V4, talk(), policy) == 1.0
        assert resolved_top_p(0.5, ModelVersion.V4, talk(tools=(RUN,)), policy) == TOP_P_WITH_TOOLS


def test_top_p_without_thinking_is_the_client_s_but_for_one_official_rule() -> None:
    silent = talk(is_thinking=False)
    assert resolved_top_p(0.5, ModelVersion.V4, silent, OFFICIAL) == 0.5
    assert resolved_top_p(0.5, ModelVersion.V41, silent, OFFICIAL) == 1.0
    assert resolved_top_p(0.5, ModelVersion.V41, silent, LOCAL) == 0.5
    assert resolved_top_p(None, ModelVersion.V4, silent, LOCAL) == 1.0


def room(requested: int | None, prompt: int, context: int, effort: ReasoningEffort | None = None) -> int:
    return resolve_max_tokens(requested, prompt, context, is_thinking=effort is not None, effort=effort)


def test_an_answer_has_a_usual_length_or_what_is_left_of_the_context() -> None:
    assert room(None, 100, 1_000_000) == 8_192
    assert room(None, 100, 1_000_000, ReasoningEffort.HIGH) == 65_536
    assert room(None, 100, 1_000_000, ReasoningEffort.MAX) == 131_072
    assert room(None, 100, 107) == 7
    assert room(None, 100, 100) == 1


def test_what_does_not_fit_is_refused_with_the_numbers() -> None:
    assert room(7, 100, 107) == 7
    with pytest.raises(ContextLengthExceeded) as caught:
        room(8, 100, 107)
    assert (caught.value.prompt_tokens, caught.value.context_length) == (100, 107)
    assert str(caught.value) == (
        "This model's maximum context length is 107 tokens. However, you requested 108 tokens (100 in the messages, "
        "8 in the completion). Please reduce the length of the messages or completion."
    )
    with pytest.raises(ContextLengthExceeded, match=r"requested 108 tokens \(108 in the messages, 0 in"):
        room(None, 108, 107)


def test_a_limit_is_from_one_to_the_bound() -> None:
    for good in (None, 1, 50):
        check_max_tokens(good, 50)
    for bad in (0, 51):
        with pytest.raises(RefusedRequest, match=r"the valid range of max_tokens is \[1, 50\]"):
            check_max_tokens(bad, 50)


def test_stop_strings_are_some_and_not_empty() -> None:
    assert checked_stop_strings(None, OFFICIAL) == ()
    assert checked_stop_strings("x", OFFICIAL) == ("x",)
    assert checked_stop_strings(["x", "x"], OFFICIAL) == ("x", "x")
    for bad, message in (
        ("", r"^Invalid 'stop': empty string\."),
        (["x", ""], r"^Invalid 'stop\[1\]': empty string\."),
        (["x"] * 17, r"^Stop string array too long: 17$"),
    ):
        with pytest.raises(RefusedRequest, match=message):
            checked_stop_strings(bad, OFFICIAL)


def test_our_own_policy_leaves_out_stop_strings_that_say_nothing() -> None:
    assert checked_stop_strings(["x", "", "x"], LOCAL) == ("x",)
    assert checked_stop_strings("", LOCAL) == ()


def test_tools_are_what_is_enforced_before_any_form() -> None:
    both = Conversation(tools=(RUN,), response_format=JsonObject())
    function = '{"name":"run","description":null,"parameters":{"type":"object"},"strict":null}'
    listed = f'[{{"type":"function","function":{function}}}]'
    assert resolve_constraint(both) == Constraint(ConstraintKind.TOOL_CALL, listed)
    assert resolve_constraint(both, must_call=True) == Constraint(ConstraintKind.TOOL_CALL_REQUIRED, listed)
    required = Conversation(tools=(RUN,), tool_choice=ToolChoice.REQUIRED)
    assert resolve_constraint(required) == Constraint(ConstraintKind.TOOL_CALL_REQUIRED, listed)
    unused = Conversation(tools=(RUN,), tool_choice=ToolChoice.NONE)
    assert resolve_constraint(unused) is None


def test_deferred_tools_are_listed_as_such() -> None:
    (constraint,) = [resolve_constraint(Conversation(tools=(ToolDefinition("f", is_deferred=True),)))]
    assert constraint is not None
    assert constraint.schema.endswith('"strict":null},"defer_loading":true}]')


def test_a_form_is_enforced_as_it_is_told_or_more_strictly() -> None:
    told = Conversation(response_format=JsonSchema({"a": [1e-7, 1.0]}))
    assert resolve_constraint(told) == Constraint(ConstraintKind.JSON, '{"a":[1e-7,1.0]}')
    assert resolve_constraint(told, {"b": 1}) == Constraint(ConstraintKind.JSON, '{"b":1}')
    assert resolve_constraint(Conversation(response_format=JsonObject())) == Constraint(ConstraintKind.JSON, "")
    assert resolve_constraint(Conversation(response_format=Regex("a+"))) == Constraint(ConstraintKind.REGEX, "a+")
    assert resolve_constraint(Conversation()) is None


def test_our_own_policy_takes_many_stop_strings_but_not_any_number() -> None:
    some = [f"stop {number}" for number in range(256)]
    assert checked_stop_strings([*some, "", *some], LOCAL) == tuple(some)
    with pytest.raises(RefusedRequest, match="at most 256 strings, got 257"):
        checked_stop_strings([*some, "one more"], LOCAL)
