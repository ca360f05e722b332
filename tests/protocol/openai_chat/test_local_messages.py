"""Messages as real clients write them, under the local policy (spec/demand.md P10, P25)."""

from typing import Any

import pytest

from protocol.openai_chat.chat_bodies import ASK, RUN, call, calls, converted, prompt_of, result
from whitedwarf.conversation.content import UrlImage
from whitedwarf.conversation.message import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest

CALLED = ToolCall("c1", "run", '{"cmd": "ls"}')
PNG = "data:image/png;base64,iVBORw0KGgo="


def content_of(*blocks: Any, role: str = "user") -> Any:
    return converted({"role": role, "content": list(blocks)}).conversation.messages[0].content


@pytest.mark.parametrize("version", ModelVersion)
def test_a_developer_is_the_system(version: ModelVersion) -> None:
    developer, system = ({"role": role, "content": "Be brief."} for role in ("developer", "system"))
    assert prompt_of(developer, ASK, version=version) == prompt_of(system, ASK, version=version)
    assert prompt_of(ASK, developer, ASK, version=version) == prompt_of(ASK, system, ASK, version=version)
    assert "Be brief." in prompt_of(ASK, developer, ASK, version=version)


def test_an_unknown_role_is_refused_with_the_known_ones() -> None:
    with pytest.raises(MalformedRequest) as caught:
        converted(ASK, {"role": "narrator", "content": "x"})
    assert str(caught.value) == (
        "messages[1].role: expected one of system, developer, user, assistant, tool, function, latest_reminder; "
        "got 'narrator'"
    )


def test_reasoning_of_a_turn_with_calls_is_shown_again() -> None:
    history = (ASK, calls(call("c1"), reasoning_content="I think."), result("c1"))
    for version in ModelVersion:
        assert "<think>I think.</think>" in prompt_of(*history, version=version, tools=[RUN])


def test_reasoning_is_also_found_under_its_other_names() -> None:
    expected = prompt_of(ASK, calls(call("c1"), reasoning_content="I think."), result("c1"), tools=[RUN])
    assert prompt_of(ASK, calls(call("c1"), reasoning="I think."), result("c1"), tools=[RUN]) == expected
    thinking = calls(call("c1")) | {"content": [{"type": "thinking", "thinking": "I think."}]}
    assert prompt_of(ASK, thinking, result("c1"), tools=[RUN]) == expected


def test_missing_reasoning_is_an_empty_thought() -> None:
    for version in ModelVersion:
        assert "<think></think>" in prompt_of(ASK, calls(call("c1")), result("c1"), version=version, tools=[RUN])


def test_results_are_taken_as_they_come() -> None:
    orphan, late = result("zz", "orphan"), result("c1", "late")
    messages = converted(ASK, orphan, calls(call("c1"), call("c2")), ASK, late).conversation.messages
    assert messages[1] == ToolMessage("orphan", "zz")
    assert messages[-1] == ToolMessage("late", "c1")


def test_a_result_without_an_id_answers_the_first_call_that_waits() -> None:
    messages = converted(
        ASK, calls(call("c1"), call("c2"), call("c3")), result("c2"), result(None, "a"), result(None, "b")
    ).conversation.messages
    assert messages[2:] == (ToolMessage("done", "c2"), ToolMessage("a", "c1"), ToolMessage("b", "c3"))
    assert converted(ASK, result(None)).conversation.messages[1] == ToolMessage("done", None)


def test_a_call_without_an_id_gets_one_that_its_result_finds() -> None:
    _, asked, told = converted(ASK, calls(call(None)), result(None)).conversation.messages
    assert isinstance(asked, AssistantMessage)
    assert isinstance(told, ToolMessage)
    assert asked.tool_calls == (ToolCall("call_1_0", "run", '{"cmd": "ls"}'),)
    assert told.call_id == "call_1_0"


def test_an_answer_without_content_and_calls_is_an_empty_one() -> None:
    for members in ({}, {"content": None}, {"content": "", "tool_calls": []}, {"content": None, "tool_calls": None}):
        assert converted(ASK, {"role": "assistant", **members}).conversation.messages[1] == AssistantMessage("", "")


def test_arguments_may_be_an_object_or_missing() -> None:
    for arguments, text in (({"cmd": "ls"}, '{"cmd":"ls"}'), (None, "{}"), ("not json", "not json")):
        message = converted(ASK, calls(call("c1", arguments=arguments))).conversation.messages[1]
        assert isinstance(message, AssistantMessage)
        assert message.tool_calls == (ToolCall("c1", "run", text),)


def test_the_older_form_of_calls_and_results_is_understood() -> None:
    function_call = {"name": "run", "arguments": '{"cmd": "ls"}'}
    messages = converted(
        ASK,
        {"role": "assistant", "content": None, "function_call": function_call},
        {"role": "function", "name": "run", "content": "done"},
    ).conversation.messages
    assert messages[1] == AssistantMessage("", "", (ToolCall("call_1_0", "run", '{"cmd": "ls"}'),))
    assert messages[2] == ToolMessage("done", "call_1_0")


def test_calls_of_custom_tools_are_calls_with_one_text() -> None:
    custom = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": 'say "hi"\n'}}
    message = converted(ASK, calls(custom)).conversation.messages[1]
    assert message == AssistantMessage("", "", (ToolCall("c1", "patch", '{"input":"say \\"hi\\"\\n"}'),))


def test_a_prefix_goes_well_with_tools() -> None:
    begun = {"role": "assistant", "content": "Once", "prefix": True}
    last = converted(ASK, begun, tools=[RUN]).conversation.messages[-1]
    assert last == AssistantMessage("Once", "", is_prefix=True)


def test_an_early_prefix_is_ignored_and_told() -> None:
    early = converted({"role": "assistant", "content": "Once", "prefix": True}, ASK)
    assert early.conversation.messages[0] == AssistantMessage("Once", "")
    assert early.warnings == ("`prefix` is only for the last message; on an earlier one it was ignored.",)


def test_null_content_is_empty() -> None:
    assert converted({"role": "user", "content": None}).conversation.messages == (UserMessage(""),)
    assert converted(ASK, {"role": "system"}).conversation.messages == (UserMessage("Hello"),)


def test_text_is_taken_from_blocks_of_any_kind() -> None:
    blocks = ("a", {"text": "b"}, {"type": "input_text", "text": "c"}, {"type": "refusal", "refusal": "d"})
    assert content_of(*blocks) == "a\n\nb\n\nc\n\nd"
    assert content_of({"type": "text", "text": "a"}, role="developer") == "a"


def test_blocks_that_say_nothing_are_left_out_and_told() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
    heard = converted({"role": "user", "content": [audio, {"type": "text", "text": "a"}]})
    assert heard.conversation.messages == (UserMessage("a"),)
    assert heard.warnings == ("Content blocks of type 'input_audio' are not understood and were left out.",)


def test_images_are_found_however_they_are_wrapped() -> None:
    for block in (
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "image_url", "image_url": PNG},
        {"type": "input_image", "image_url": PNG},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "file", "file": {"file_data": PNG, "filename": "a.png"}},
        {"type": "file", "file_data": PNG},
    ):
        assert [source.data_url for source in content_of(block).sources] == [PNG]
    (source,) = content_of({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}).sources
    assert isinstance(source, UrlImage)


def test_an_image_in_an_answer_becomes_words() -> None:
    answer = {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}
    shown = converted(ASK, answer)
    assert shown.conversation.messages[1] == AssistantMessage("[Unsupported Image]", "")
    assert shown.warnings == ("Images in assistant messages were left out.",)


def test_what_is_no_image_is_refused_with_its_place() -> None:
    with pytest.raises(RefusedRequest, match=r"^\.messages\[0\]: Unsupported image_url format$"):
        content_of({"type": "image_url", "image_url": {"url": "ftp:x"}})
    with pytest.raises(MalformedRequest, match=r"^messages\[0\]: missing field `image_url`$"):
        content_of({"type": "image_url"})


def test_a_reminder_may_come_in_blocks() -> None:
    message = {"role": "latest_reminder", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert converted(message).conversation.messages[0].content == "a\n\nb"


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (5, r"messages\[0\]: expected an object"),
        ({"role": 5}, r"messages\[0\]\.role: "),
        ({"role": "user", "content": 5}, r"messages\[0\]\.content: "),
        ({"role": "user", "content": [5]}, r"messages\[0\]\.content: "),
        ({"role": "user", "content": [{"type": "text", "text": 5}]}, r"messages\[0\]: invalid type: integer `5`"),
        ({"role": "assistant", "tool_calls": 5}, r"messages\[0\]\.tool_calls: "),
        ({"role": "assistant", "tool_calls": [5]}, r"messages\[0\]\.tool_calls\[0\]: "),
        ({"role": "assistant", "tool_calls": [{}]}, r"messages\[0\]\.tool_calls\[0\]\.function: "),
        ({"role": "assistant", "tool_calls": [{"type": "custom"}]}, r"messages\[0\]\.tool_calls\[0\]\.custom: "),
        ({"role": "assistant", "reasoning_content": 5}, r"messages\[0\]: invalid type"),
        ({"role": "tool", "content": "", "tool_call_id": 5}, r"messages\[0\]\.tool_call_id: "),
    ],
    ids=str,
)
def test_an_error_says_in_which_message_it_is(message: Any, place: str) -> None:
    with pytest.raises(MalformedRequest, match=f"^{place}"):
        converted(message)


def test_system_messages_without_text_are_left_out() -> None:
    assert converted({"role": "developer", "content": ""}, ASK).conversation.messages == (UserMessage("Hello"),)
    assert converted({"role": "system", "content": " "}).conversation.messages == (SystemMessage(" "),)
