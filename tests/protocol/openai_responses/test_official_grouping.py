"""How the official library groups items: the rules that the vectors pin only in passing, each in a sentence."""

import pytest

from protocol.openai_responses.bodies import Body, assistant, call, custom, function, namespace, output, reasoning, user
from whitedwarf.conversation.message import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.openai_responses.convert import convert
from whitedwarf.protocol.policy import OFFICIAL

V4, V41 = "DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"
BAD_IMAGE = {"type": "input_image"}


def grouped(*items: Body, model: str = V41, tools: tuple[Body, ...] = ()) -> tuple[Message, ...]:
    return convert({"model": model, "input": list(items), "tools": list(tools)}, OFFICIAL).conversation.messages


def refusal(*items: Body, model: str = V41) -> str:
    with pytest.raises(RefusedRequest) as error:
        grouped(*items, model=model)
    return str(error.value)


def calling(*ids: str, reasoning: str = "", content: str = "", name: str = "run") -> AssistantMessage:
    return AssistantMessage(content, reasoning, tuple(ToolCall(one, name, "{}") for one in ids))


@pytest.mark.parametrize("model", [V4, V41])
def test_calls_and_their_results_are_sorted_by_id(model: str) -> None:
    items = [call("c2"), call("c10"), call("C"), output("c10"), output("c2"), output("C")]
    results = tuple(ToolMessage("done", one) for one in ("C", "c10", "c2"))
    assert grouped(*items, model=model) == (calling("C", "c10", "c2"), *results)


def test_a_call_after_some_results_is_of_the_same_turn() -> None:
    items = [call("a"), call("b"), output("a"), call("c"), output("b"), output("c")]
    assert grouped(*items)[0] == calling("a", "b", "c")


def test_a_call_after_all_results_is_of_another_turn() -> None:
    items = [reasoning("x"), call("a"), output("a"), call("b"), output("b")]
    assert grouped(*items)[::2] == (calling("a", reasoning="x"), calling("b"))


def test_empty_reasoning_is_transparent_but_not_after_calls() -> None:
    assert grouped(assistant("1"), reasoning(""), assistant("2")) == (AssistantMessage("1\n\n2", ""),)
    assert refusal(call("a"), reasoning(""), output("a")) == "No tool output found for tool call a."


def test_an_empty_text_does_not_keep_reasoning_away() -> None:
    assert grouped(assistant(""), reasoning("x"), assistant("2")) == (AssistantMessage("2", "x"),)


def test_reasoning_left_over_is_an_answer_of_nothing() -> None:
    assert grouped(reasoning("x"), user()) == (AssistantMessage("", "x"), UserMessage("hello"))
    assert grouped(reasoning(""), user()) == (UserMessage("hello"),)


def test_a_web_search_call_ends_calls_but_not_texts() -> None:
    search = {"type": "web_search_call"}
    assert grouped(assistant("1"), search, assistant("2")) == (AssistantMessage("1\n\n2", ""),)
    assert refusal(call("a"), search, output("a")) == "No tool output found for tool call a."


def test_a_result_without_an_id_ends_the_turn() -> None:
    assert grouped(assistant("1"), output(None), assistant("2")) == (
        *(AssistantMessage("1", ""), ToolMessage("done"), AssistantMessage("2", "")),
    )
    assert refusal(call("a"), output(None), output("a")) == "No tool output found for tool call a."


def test_to_v4_a_developer_is_a_user() -> None:
    developer = {"role": "developer", "content": "d"}
    assert grouped(developer, model=V4) == (UserMessage("d"),)
    assert grouped(developer, model=V41) == (SystemMessage("d"),)


def test_ids_are_of_one_call_and_one_result_in_the_whole_input() -> None:
    again = [call("a"), output("a"), user()]
    assert refusal(*again, call("a")) == "Duplicate 'call_id': a."
    assert refusal(*again, output("a")) == "Duplicate tool output for call_id: a."
    assert refusal(call("a"), output("b")) == "No tool call found for tool output with call_id b."


def test_a_functions_result_is_looked_at_before_its_call_and_a_custom_tools_after() -> None:
    function_output = {"type": "function_call_output", "call_id": "a", "output": [BAD_IMAGE]}
    custom_output = {"type": "custom_tool_call_output", "call_id": "a", "output": [BAD_IMAGE]}
    assert refusal(function_output) == "input[0].output[0]: input_image must have image_url or file_id"
    assert refusal(custom_output) == "No tool call found for tool output with call_id a."


def test_all_images_of_an_item_are_counted_before_any_address_is_read() -> None:
    images = [{"type": "input_image", "image_url": "ftp:"}, BAD_IMAGE]
    assert refusal(user(images)) == "input[0].content[1]: input_image must have image_url or file_id"
    assert refusal(user(images[:1])) == "input[0]: Unsupported image_url format"
    assert refusal(assistant(images[:1])) == "input[0]: Image in assistant message is unsupported"


def test_v4_knows_no_search_for_tools() -> None:
    search = {"type": "tool_search_call", "call_id": "s", "arguments": {}}
    found = {"type": "tool_search_output", "call_id": "s", "tools": [function("f f")]}
    assert grouped(user(), search, found, model=V4) == (UserMessage("hello"),)
    assert "input[2].tools[0].name" in refusal(user(), search, found)


def test_tools_found_in_namespaces_take_part_in_naming_even_where_they_are_dropped() -> None:
    found = {"type": "tool_search_output", "call_id": "s", "tools": [namespace("n", function("f__g"))]}
    items = [found, call("a", "f__g", namespace="n"), output("a")]
    assert grouped(*items, model=V4, tools=(namespace("n__f", function("g")),))[0] == calling("a", name="n__f__g_1")


def test_each_search_has_its_update_in_the_order_of_the_results() -> None:
    searches = [{"type": "tool_search_call", "call_id": one, "arguments": {}} for one in "ba"]
    results = [{"type": "tool_search_output", "call_id": one, "tools": [function(one)]} for one in "ba"]
    *_, first, second = grouped(*searches, *results)
    assert isinstance(first, SystemMessage)
    assert isinstance(second, SystemMessage)
    assert [tool.name for update in (first, second) for tool in update.tools or ()] == ["b", "a"]


def test_the_patch_tool_is_told_with_one_blank_line_less_to_v4() -> None:
    body = {"input": "x", "tools": [custom("apply_patch")]}
    told = [convert(body | {"model": model}, OFFICIAL).conversation.tools[0].description or "" for model in (V4, V41)]
    assert told[0] == told[1].replace("envelope:\n\n***", "envelope:\n***")
    assert told[0] != told[1]


def test_tools_that_may_not_be_called_are_not_looked_at() -> None:
    tools = [function("f") | {"parameters": 5}, function("f")]
    body = {"model": V41, "input": "x", "tools": tools}
    with pytest.raises(RefusedRequest, match="Invalid schema for function 'f'"):
        convert(body, OFFICIAL)
    assert convert(body | {"tool_choice": "none"}, OFFICIAL).conversation.tools == ()
