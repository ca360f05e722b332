"""Input items under our own policy: taken as they come, in whichever form clients write them."""

import pytest

from protocol.openai_responses.bodies import (
    Body,
    assistant,
    call,
    converted,
    custom,
    function,
    messages,
    namespace,
    output,
    reasoning,
    user,
)
from whitedwarf.conversation.message import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.openai_responses.carried_thoughts import carrying

V4, V41 = ModelVersion.V4, ModelVersion.V41


def calling(*ids: str, reasoning: str = "", content: str = "") -> AssistantMessage:
    return AssistantMessage(content, reasoning, tuple(ToolCall(one, "run", "{}") for one in ids))


def test_a_call_without_a_result_stays_without_one() -> None:
    assert messages(call("a"), user()) == (calling("a"), UserMessage("hello"))


def test_a_late_result_stays_where_it_came() -> None:
    assert messages(call("a"), user(), output("a")) == (calling("a"), UserMessage("hello"), ToolMessage("done", "a"))


def test_a_result_of_an_unknown_call_is_a_result_all_the_same() -> None:
    assert messages(user(), output("zz")) == (UserMessage("hello"), ToolMessage("done", "zz"))


def test_a_result_without_an_id_answers_the_first_call_that_waits() -> None:
    found = messages(call("a"), call("b"), output("a"), output(None, "second"))
    assert found == (calling("a", "b"), ToolMessage("done", "a"), ToolMessage("second", "b"))


def test_a_result_without_an_id_where_no_call_waits_has_none() -> None:
    assert messages(output(None)) == (ToolMessage("done", None),)


def test_calls_and_results_keep_their_own_order() -> None:
    found = messages(call("b"), call("a"), output("a"), output("b"))
    assert found == (calling("b", "a"), ToolMessage("done", "a"), ToolMessage("done", "b"))


def test_thoughts_between_calls_that_wait_are_of_the_same_turn() -> None:
    found = messages(reasoning("x"), call("a"), reasoning("y"), call("b"), output("a"), output("b"))
    assert found == (calling("a", "b", reasoning="x\ny"), ToolMessage("done", "a"), ToolMessage("done", "b"))


def test_what_follows_a_result_is_another_turn() -> None:
    found = messages(call("a"), output("a"), assistant("text"), call("b"), output("b"))
    assert found == (
        *(calling("a"), ToolMessage("done", "a")),
        *(calling("b", content="text"), ToolMessage("done", "b")),
    )


def test_thoughts_after_an_answer_are_of_another_turn() -> None:
    found = messages(assistant("1"), reasoning("x"), assistant("2"))
    assert found == (AssistantMessage("1", ""), AssistantMessage("2", "x"))


def test_the_same_id_may_be_called_and_answered_again() -> None:
    found = messages(call("a"), output("a"), call("a"), output("a", "again"))
    assert found == (calling("a"), ToolMessage("done", "a"), calling("a"), ToolMessage("again", "a"))


def test_reasoning_is_its_content_or_else_its_summary() -> None:
    summary = [{"type": "summary_text", "text": "short"}]
    told = {"type": "reasoning", "summary": summary, "content": None, "encrypted_content": "zz", "id": "rs_1"}
    assert messages(told, assistant("a")) == (AssistantMessage("a", "short"),)
    whole = told | {"content": [{"type": "reasoning_text", "text": "whole\n"}]}
    assert messages(whole, assistant("a")) == (AssistantMessage("a", "whole\n"),)


def test_reasoning_comes_back_from_a_client_that_keeps_no_text_of_it() -> None:
    kept = {"type": "reasoning", "summary": [], "encrypted_content": carrying("resp-1-0", "I must look.\n🦔")}
    assert messages(kept, assistant("a")) == (AssistantMessage("a", "I must look.\n🦔"),)


def test_reasoning_of_a_tool_turn_is_in_the_prompt() -> None:  # demand.md P10
    history = (user(), reasoning("I must look."), call("a"), output("a"))
    found = converted(*history, tools=[function("run")])
    assert "I must look.</think>" in encode(found.conversation, V41).rendered().text
    assert converted(user(), call("a"), output("a")).conversation.messages[1] == calling("a")


@pytest.mark.parametrize("version", [V4, V41])
def test_a_developer_is_the_system(version: ModelVersion) -> None:  # demand.md P25
    developer = {"role": "developer", "content": "Be short."}
    first = converted(developer, user(), version=version).conversation
    assert first == converted(developer | {"role": "system"}, user(), version=version).conversation
    later = messages(user(), developer, version=version)
    assert later == (UserMessage("hello"), SystemMessage("Be short."))


def test_an_unknown_role_is_refused_with_the_known_ones() -> None:
    with pytest.raises(MalformedRequest, match=r"input\[1\]\.role: .*user, assistant, system, developer; got 'tool'"):
        messages(user(), {"role": "tool", "content": "x"})


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "local_shell_call", "id": "ls", "call_id": "c", "action": {"command": ["ls"]}}, "local_shell"),
        ({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}, "shell"),
        ({"type": "apply_patch_call", "call_id": "c", "operation": {"path": "x"}}, "apply_patch"),
    ],
)
def test_calls_of_built_in_tools_are_calls(item: Body, expected: str) -> None:
    result = {"type": f"{item['type']}_output", "call_id": "c", "output": [{"stdout": "a.txt"}]}
    answer, found = messages(item, result)
    assert isinstance(answer, AssistantMessage)
    assert answer.tool_calls is not None
    assert answer.tool_calls[0].name == expected
    assert answer.tool_calls[0].id == "c"
    assert found == ToolMessage('[{"stdout":"a.txt"}]', "c")


def test_arguments_and_outputs_that_are_no_text_are_told_as_json() -> None:
    answer, found = messages(call("a", arguments={"x": [1, 2]}), output("a", {"y": None}))
    assert answer == AssistantMessage("", "", (ToolCall("a", "run", '{"x":[1,2]}'),))
    assert found == ToolMessage('{"y":null}', "a")


def test_a_call_may_be_named_by_its_item_or_not_at_all() -> None:
    named: Body = {"type": "function_call", "id": "fc_1", "name": "run"}
    found = messages(named, output("fc_1"))
    assert found == (calling("fc_1"), ToolMessage("done", "fc_1"))
    unnamed = messages({"type": "function_call", "name": "run"}, output(None))
    assert unnamed == (calling("input[0]"), ToolMessage("done", "input[0]"))


def test_blocks_of_any_kind_give_their_text() -> None:
    blocks = ["bare", {"type": "text", "text": "plain"}, {"text": "typeless"}, {"type": "zz", "content": "kept"}]
    assert messages(user(blocks)) == (UserMessage("bare\n\nplain\n\ntypeless\n\nkept"),)
    refusal = assistant([{"type": "refusal", "refusal": "No."}])
    assert messages(refusal) == (AssistantMessage("No.", ""),)


def test_blocks_without_text_are_told_as_left_out() -> None:
    found = converted(user([{"type": "audio", "data": "…"}, {"type": "input_text", "text": "x"}]))
    assert found.conversation.messages == (UserMessage("x"),)
    assert found.warnings == ("Content blocks of type 'audio' are not understood and were left out.",)


def test_an_image_of_the_assistant_is_told_in_words() -> None:
    image = {"type": "input_image", "image_url": "https://x/y.png"}
    found = converted(assistant([{"type": "output_text", "text": "Here:"}, image]))
    assert found.conversation.messages == (AssistantMessage("Here:\n\n[Unsupported Image]", ""),)
    assert found.warnings == ("Images in assistant messages were left out.",)


def test_what_other_servers_ran_is_left_out_and_told() -> None:
    found = converted(user(), {"type": "web_search_call", "id": "ws"}, {"type": "zz"})
    assert found.conversation.messages == (UserMessage("hello"),)
    assert found.warnings == (
        "What another server ran itself was left out: items of type 'web_search_call'.",
        "Items of type 'zz' are not understood and were left out.",
    )


@pytest.mark.parametrize("kind", ["compaction", "context_compaction"])
def test_compaction_items_pass_silently(kind: str) -> None:
    found = converted(user(), {"type": kind, "encrypted_content": "zz"})
    assert found.conversation.messages == (UserMessage("hello"),)
    assert found.warnings == ()


def test_a_reference_to_a_stored_item_is_refused() -> None:
    with pytest.raises(RefusedRequest, match=r"input\[1\]: this server stores no items.*Send the item itself"):
        messages(user(), {"type": "item_reference", "id": "msg_1"})


def test_an_input_of_nothing_is_refused() -> None:
    with pytest.raises(RefusedRequest, match="must not be empty"):
        messages()


def test_a_call_in_a_namespace_has_the_name_that_the_model_knows() -> None:
    tools = [namespace("git", function("log"))]
    first, *_ = messages(call("a", "log", namespace="git"), output("a"), tools=tools)
    assert first == AssistantMessage("", "", (ToolCall("a", "git::log", "{}"),))
    first, *_ = messages(call("a", "log", namespace="git"), output("a"), tools=tools, version=V4)
    assert first == AssistantMessage("", "", (ToolCall("a", "git__log", "{}"),))


def test_a_custom_call_is_a_call_with_an_input() -> None:
    item = {"type": "custom_tool_call", "call_id": "a", "name": "sql", "namespace": "db", "input": 'select "x"'}
    result = {"type": "custom_tool_call_output", "call_id": "a", "output": "1"}
    found = messages(item, result, tools=[namespace("db", custom("sql"))])
    arguments = '{"input":"select \\"x\\""}'
    assert found == (AssistantMessage("", "", (ToolCall("a", "db::sql", arguments),)), ToolMessage("1", "a"))
