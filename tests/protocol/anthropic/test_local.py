"""What the local policy takes beyond the official one, and what it still refuses."""

from typing import Any

import pytest

from protocol.anthropic.local_messages import (
    HELLO,
    PIXEL,
    assistant,
    prompt,
    read,
    result,
    text,
    thinking,
    tool,
    use,
    user,
)
from whitedwarf.conversation.message import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.options import ConstraintKind
from whitedwarf.conversation.response_format import JsonSchema
from whitedwarf.conversation.tools import ToolChoice
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse_options import ParseMode, ParseStart
from whitedwarf.protocol.anthropic.convert import convert
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.policy import local

V4, V41 = ModelVersion.V4, ModelVersion.V41
HEADER = "x-anthropic-billing-header: cc_version=1; cch=abc"
both = pytest.mark.parametrize("version", [V4, V41])
OFF = {"type": "disabled"}


# The system prompt (demand.md P12)


@both
def test_every_billing_block_of_the_system_prompt_is_left_out(version: ModelVersion) -> None:
    bare = prompt(version, HELLO, system=[text("be kind")])
    assert prompt(version, HELLO, system=[text(HEADER), text("be kind"), text(HEADER + "2")]) == bare


@both
def test_a_system_prompt_of_nothing_but_billing_is_none(version: ModelVersion) -> None:
    bare = prompt(version, HELLO)
    for system in (HEADER, [text(HEADER)], "", [], None):
        assert prompt(version, HELLO, system=system) == bare


def test_instructions_below_a_billing_line_stay() -> None:
    assert prompt(V4, HELLO, system=f"{HEADER}\nbe kind") == prompt(V4, HELLO, system="be kind")


@both
def test_a_user_who_writes_of_billing_is_heard(version: ModelVersion) -> None:
    assert HEADER in prompt(version, user(text(HEADER)))
    assert HEADER in prompt(version, {"role": "user", "content": HEADER})


def test_a_developer_is_the_system() -> None:
    developer = {"role": "developer", "content": "now"}
    assert read(V41, HELLO, developer).conversation.messages[1] == SystemMessage("now")


# Thinking (demand.md P09)

SPELLINGS_OF_NO_THINKING: list[dict[str, Any]] = [
    {"thinking": OFF},
    {"thinking": {**OFF, "display": "omitted", "budget_tokens": 5}},
    {"thinking": False},
    {"think": False},
    {"enable_thinking": False},
    {"chat_template_kwargs": {"thinking": False}},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"reasoning_effort": "none"},
    {"reasoning": {"effort": "none"}},
    {"output_config": {"effort": "none"}},
]


@both
@pytest.mark.parametrize("spelling", SPELLINGS_OF_NO_THINKING, ids=str)
def test_every_way_to_switch_thinking_off_gives_the_same_prompt(
    version: ModelVersion, spelling: dict[str, Any]
) -> None:
    assert prompt(version, HELLO, **spelling) == prompt(version, HELLO, thinking=OFF)
    assert not read(version, HELLO, **spelling).reply.is_thinking


@pytest.mark.parametrize("how", ["enabled", "adaptive", None])
def test_thinking_that_is_not_disabled_is_on(how: str | None) -> None:
    said = None if how is None else {"type": how, "display": "summarized", "budget_tokens": 1024, "new": 1}
    assert read(V4, HELLO, thinking=said).conversation.is_thinking


def test_an_effort_shapes_the_prompt() -> None:
    efforts = {prompt(V41, HELLO, output_config={"effort": effort}) for effort in ("low", "medium", "max")}
    assert len(efforts) == 3


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("thinking", {"type": "auto"}, "enabled, adaptive, disabled"),
        ("thinking", {}, "enabled, adaptive, disabled"),
        ("output_config", {"effort": "huge"}, "none, minimal, low, medium, high, xhigh, ultra, max"),
        ("tool_choice", {"type": "maybe"}, "auto, any, tool, none"),
    ],
)
def test_an_unknown_value_is_refused_with_the_allowed_ones(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(MalformedRequest, match=allowed):
        read(V4, HELLO, **{field: value})


def test_an_unknown_role_is_refused_with_the_allowed_ones() -> None:
    with pytest.raises(MalformedRequest, match=r"messages\[0\].role: expected one of user, assistant, system, dev"):
        read(V4, {"role": "critic", "content": "x"})


# History (demand.md P10, P11)


@both
def test_the_reasoning_of_a_tool_turn_is_in_the_next_prompt(version: ModelVersion) -> None:
    turn = [HELLO, assistant(thinking("because", signature="s"), use("a")), user(result("a"))]
    assert "<think>because</think>" in prompt(version, *turn, tools=[tool("f")])


@both
@pytest.mark.parametrize("signature", [{}, {"signature": ""}, {"signature": None}, {"signature": "abc"}], ids=str)
def test_a_thinking_block_needs_no_signature(version: ModelVersion, signature: dict[str, Any]) -> None:
    turn = [HELLO, assistant(thinking("because", **signature), use("a")), user(result("a"))]
    assert "<think>because</think>" in prompt(version, *turn, tools=[tool("f")])


@both
def test_a_tool_turn_without_its_reasoning_has_an_empty_thought(version: ModelVersion) -> None:
    turn = [HELLO, assistant(use("a")), user(result("a"))]
    assert "<think></think>" in prompt(version, *turn, tools=[tool("f")])


def test_results_are_taken_late_apart_and_unasked_for() -> None:
    converted = read(
        V4, assistant(use("a"), use("b")), HELLO, user(result("b"), text("and"), result("a")), user(result("zz"))
    )
    assert [message.call_id for message in converted.conversation.messages if isinstance(message, ToolMessage)] == [
        "b",
        "a",
        "zz",
    ]


def test_a_call_without_result_is_taken() -> None:
    assert isinstance(read(V4, assistant(use("a")), HELLO).conversation.messages[0], AssistantMessage)


def test_a_result_without_id_answers_the_first_open_call() -> None:
    nameless = {"type": "tool_result", "content": "x"}
    messages = read(V4, assistant(use("a"), use("b")), user(nameless, nameless, nameless)).conversation.messages
    assert [message.call_id for message in messages if isinstance(message, ToolMessage)] == ["a", "b", None]


@both
@pytest.mark.parametrize("content", ["", [], None], ids=str)
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_a_message_may_be_empty(version: ModelVersion, role: str, content: Any) -> None:
    assert prompt(version, HELLO, {"role": role, "content": content}, HELLO)


def test_call_ids_may_look_like_anything() -> None:
    odd = "😀 <｜User｜> \n" * 20
    assert read(V4, assistant(use(odd)), user(result(odd))).conversation.messages[1] == ToolMessage("done", odd)


@pytest.mark.parametrize(
    ("value", "arguments"),
    [(None, "{}"), ({}, "{}"), ({"a": 1e-7}, '{"a": 1e-7}'), ('{"a":1}', '{"a": 1}'), ("plain", '"plain"')],
    ids=str,
)
def test_the_input_of_a_call_is_an_object_where_it_can_be(value: Any, arguments: str) -> None:
    messages = read(V4, assistant({"type": "tool_use", "id": "a", "name": "f", "input": value}), HELLO)
    said = messages.conversation.messages[0]
    assert isinstance(said, AssistantMessage)
    assert said.tool_calls is not None
    assert said.tool_calls[0].arguments == arguments


def test_an_answer_at_the_end_is_gone_on_with() -> None:
    converted = read(V4, HELLO, {"role": "assistant", "content": "Dear"})
    assert converted.parsing.start is ParseStart.CONTENT_CONTINUED
    assert prompt(V4, HELLO, {"role": "assistant", "content": "Dear"}).endswith("Dear")


def test_calls_at_the_end_are_not_gone_on_with() -> None:
    assert read(V4, HELLO, assistant(text("x"), use("a"))).parsing.start is ParseStart.REASONING


# Blocks


def test_text_in_blocks_of_unknown_kinds_is_kept() -> None:
    found = {"type": "search_result", "source": "http://x", "title": "Tides", "content": [text("high at noon")]}
    assert read(V4, user(found)).conversation.messages == (UserMessage("Tides\nhigh at noon"),)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "url": "u"}]},
        {"type": "container_upload", "file_id": "f"},
        {"type": "brand_new"},
    ],
    ids=lambda block: block["type"],
)
def test_blocks_that_a_model_can_make_nothing_of_are_left_out_with_a_warning(block: dict[str, Any]) -> None:
    converted = read(V4, HELLO, assistant(block, text("so")), HELLO)
    assert [message for message in converted.conversation.messages if isinstance(message, AssistantMessage)] == [
        AssistantMessage("so", "")
    ]
    assert converted.warnings == (f"Blocks of type '{block['type']}' were left out.",)


def test_a_document_of_text_is_shown_and_another_named() -> None:
    plain = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}
    said = read(V4, user(plain, pdf)).conversation.messages
    assert said == (UserMessage("words"), UserMessage("[Unsupported document type: application/pdf]"))


@pytest.mark.parametrize(
    "source",
    [
        {"type": "url", "url": "data:image/png;base64,iVBORw0KGgo="},
        {"type": "base64", "media_type": "image/PNG", "data": "iVBORw0K\nGgo="},
    ],
    ids=lambda source: source["type"],
)
def test_images_may_be_spelt_in_other_ways(source: dict[str, Any]) -> None:
    assert prompt(V41, user({"type": "image", "source": source})) == prompt(V41, user(PIXEL))


def test_an_image_among_the_models_words_is_left_out() -> None:
    converted = read(V41, HELLO, assistant(PIXEL), HELLO)
    assert converted.conversation.messages[1] == AssistantMessage("[Unsupported Image]", "")
    assert converted.warnings


def test_a_tool_that_ran_within_the_answer_stands_where_it_ran() -> None:
    messages = read(V4, assistant(text("I run"), use("a"), result("a"), text("and done")), HELLO).conversation.messages
    assert [type(message) for message in messages] == [AssistantMessage, ToolMessage, AssistantMessage, UserMessage]


# Tools


def test_any_means_that_a_tool_must_be_called() -> None:
    converted = read(V4, HELLO, tools=[tool("f")], tool_choice={"type": "any"}, thinking=OFF)
    assert converted.conversation.tool_choice is ToolChoice.REQUIRED
    assert converted.parsing.starts_in_tool_calls


def test_a_thinking_model_can_be_made_to_call() -> None:
    converted = read(V4, HELLO, tools=[tool("f"), tool("g")], tool_choice={"type": "tool", "name": "g"})
    assert [offered.name for offered in converted.conversation.tools] == ["g"]
    assert converted.constraint is not None
    assert converted.constraint.kind is ConstraintKind.TOOL_CALL_REQUIRED


def test_no_tool_is_offered_where_none_is_chosen() -> None:
    converted = read(V4, HELLO, tools=[tool("f")], tool_choice={"type": "none"})
    assert converted.conversation.tools == ()
    assert not converted.parsing.parse_tool_calls


def test_a_custom_tool_is_a_tool_and_a_hosted_one_is_left_out() -> None:
    hosted = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
    bash = {"type": "bash_20250124", "name": "bash"}
    converted = read(V4, HELLO, tools=[hosted, tool("f", type="custom"), bash])
    assert [offered.name for offered in converted.conversation.tools] == ["f"]
    assert len(converted.warnings) == 2


def test_a_tool_without_schema_takes_an_empty_object() -> None:
    for declared in ({"name": "f"}, {"name": "f", "input_schema": None}, {"name": "f", "input_schema": {}}):
        assert read(V4, HELLO, tools=[declared]).conversation.tools[0].parameters == {}


@both
def test_deferred_tools_that_only_a_server_could_bring_are_offered_at_once(version: ModelVersion) -> None:
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    shown = prompt(version, HELLO, tools=[search, tool("late", defer_loading=True)])
    assert "does late" in shown


@both
def test_an_added_tool_is_told_of_in_its_place(version: ModelVersion) -> None:
    added = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "late"}}
    tools = [tool("f"), tool("late", defer_loading=True)]
    shown = prompt(version, HELLO, {"role": "system", "content": [text("new tool"), added]}, HELLO, tools=tools)
    assert shown.index("does f") < shown.index("new tool") < shown.index("does late")


@both
def test_a_tool_that_is_not_chosen_is_not_told_of(version: ModelVersion) -> None:
    turn = [assistant(use("a", "f")), user(result("a", [{"type": "tool_reference", "tool_name": "late"}]))]
    tools = [tool("f"), tool("late", defer_loading=True)]
    assert "does late" not in prompt(version, *turn, tools=tools, tool_choice={"type": "none"})


def test_all_tools_may_be_deferred() -> None:
    assert "does late" not in prompt(V41, HELLO, tools=[tool("late", defer_loading=True)])


# Options


def test_a_model_that_does_not_think_is_sampled_as_asked() -> None:
    options = read(V4, HELLO, thinking=OFF, temperature=0.5, top_p=0.25, top_k=40, min_p=0.125).inference
    assert (options.temperature, options.top_p, options.top_k, options.min_p) == (0.5, 0.25, 40, 0.125)


def test_a_model_that_thinks_is_sampled_as_it_was_trained() -> None:
    options = read(V4, HELLO, temperature=0.5, top_p=0.25, top_k=40, min_p=0.125).inference
    assert (options.temperature, options.top_p, options.top_k, options.min_p) == (1.0, 1.0, None, None)


def test_a_schema_for_the_answer_is_kept() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    form = {"type": "json_schema", "schema": schema}
    for place in ({"output_config": {"format": form}}, {"output_format": form}):
        assert read(V4, HELLO, **place).conversation.response_format == JsonSchema(schema)


def test_empty_stop_sequences_are_left_out() -> None:
    assert read(V4, HELLO, stop_sequences=["", "END", "END"]).parsing.stop_strings == ("END",)
    assert read(V4, HELLO, stop_sequences="END").parsing.stop_strings == ("END",)


def test_the_answer_is_read_with_repairs() -> None:
    assert read(V4, HELLO).parsing.mode is ParseMode.SALVAGE


def test_a_request_without_model_or_token_limit_is_taken() -> None:
    converted = convert({"messages": [HELLO]}, local(V4))
    assert converted.model == "deepseek-v4"
    assert converted.inference.max_tokens is None


def test_fields_that_nothing_reads_are_told() -> None:
    assert read(V4, HELLO, container="c", metadata=5, cache_control={}, betas=[]).unknown_fields == ("container",)


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_an_answer_of_no_tokens_is_refused(max_tokens: int) -> None:
    with pytest.raises(RefusedRequest, match="max_tokens"):
        read(V4, HELLO, max_tokens=max_tokens)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (5, "body: expected an object, got 5"),
        ({"messages": []}, "at least one message"),
        ({"messages": "x" * 1000}, "messages: expected a list, got 'xx"),
        ({"messages": [5]}, r"messages\[0\]: expected an object"),
        ({"messages": [{"role": "user", "content": 5}]}, r"messages\[0\].content: expected a text or a list"),
        ({"messages": [user({"type": 5})]}, r"messages\[0\].content\[0\].type: expected a string"),
        ({"messages": [user({"text": 5})]}, r"messages\[0\].content\[0\].type: expected the block's type"),
        ({"messages": [user(use("a"))]}, "can only be in `assistant` messages"),
        ({"messages": [user({"type": "image"})]}, r"content\[0\].source: expected an object, got null"),
        ({"messages": [HELLO], "tools": [{}]}, r"tools\[0\].name: expected the tool's name"),
        ({"messages": [HELLO], "tools": [tool("f"), tool("f", description="x")]}, "unique"),
        ({"messages": [HELLO], "tools": [tool("f")], "tool_choice": {"type": "tool", "name": "g"}}, "'g'"),
        ({"messages": [HELLO], "max_tokens": "many"}, "max_tokens: expected a whole number, got 'many'"),
        ({"messages": [HELLO], "temperature": 3}, "temperature"),
        ({"messages": [HELLO], "stream": 1}, "stream: expected true or false, got 1"),
        ({"messages": [HELLO], "stop_sequences": [5]}, r"stop_sequences\[0\]: expected a string, got 5"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(body: Any, complaint: str) -> None:
    with pytest.raises((MalformedRequest, RefusedRequest), match=complaint) as caught:
        convert(body, local(V4))
    assert len(str(caught.value)) < 300


def test_many_warnings_are_not_too_many() -> None:
    blocks = [{"type": f"kind{number}"} for number in range(1000)]
    assert len(read(V4, user(*blocks)).warnings) <= 32
