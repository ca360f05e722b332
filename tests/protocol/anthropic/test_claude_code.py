"""Requests as Claude Code sends them (spec/clients.md 3): each prompt is an exact extension of the one before."""

from typing import Any

import pytest

from protocol.anthropic.local_messages import assistant, prompt, read, result, text, thinking, tool, use, user
from whitedwarf.prompt.encode import ModelVersion

pytestmark = pytest.mark.parametrize("version", list(ModelVersion))

Message = dict[str, Any]
CACHED = {"cache_control": {"type": "ephemeral"}}
PLACEHOLDER = tool("DeferredToolPlaceholder", defer_loading=True)
FIRST_TOOLS = [tool("Agent"), tool("Bash"), PLACEHOLDER, tool("ToolSearch"), tool("Write")]
FOUND = [tool("WebFetch", defer_loading=True), tool("WebSearch", defer_loading=True)]
LATER_TOOLS = [tool("Agent"), tool("Bash"), PLACEHOLDER, tool("ToolSearch"), *FOUND, tool("Write")]


def body(messages: list[Message], tools: list[Message], header_hash: str = "582") -> dict[str, Any]:
    return {
        "system": [
            text(f"x-anthropic-billing-header: cc_version=2.1.332.{header_hash}; cc_entrypoint=sdk-cli;"),
            text("You are Claude Code.", **CACHED),
            text("Work in /tmp.", **CACHED),
        ],
        "tools": tools,
        "metadata": {"user_id": '{"device_id":"x"}'},
        "max_tokens": 32000,
        "thinking": {"type": "adaptive", "display": "omitted"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
        "stream": True,
        "messages": messages,
    }


def rendered(version: ModelVersion, request: dict[str, Any]) -> str:
    messages = request.pop("messages")
    return prompt(version, *messages, **request)


OPENING_BLOCKS = [user(text("fix it", **CACHED)), {"role": "system", "content": [text("# Environment", **CACHED)]}]
OPENING_STRINGS = [{"role": "user", "content": "fix it"}, {"role": "system", "content": "# Environment"}]
SEARCH = assistant(thinking("look for a tool", signature=""), use("toolu_1", "ToolSearch", query="web"))
REFERENCES = [{"type": "tool_reference", "tool_name": name} for name in ("WebFetch", "WebSearch")]
SEARCHED = user(result("toolu_1", REFERENCES, is_error=False))
FETCH = assistant(thinking("fetch", signature="abc"), text("Fetching.\n"), use("toolu_2", "WebFetch", url="http://x"))
FETCHED = user({"is_error": False, **result("toolu_2", [text("page", **CACHED)])})
COMPACTION = user({**FETCHED["content"][0]}, text("CRITICAL: Respond with TEXT ONLY."))

TURNS = [
    body(OPENING_BLOCKS, FIRST_TOOLS),
    body([*OPENING_STRINGS, SEARCH, SEARCHED], LATER_TOOLS, header_hash="d32"),
    body([*OPENING_STRINGS, SEARCH, SEARCHED, FETCH, FETCHED], LATER_TOOLS, header_hash="18b"),
    body([*OPENING_STRINGS, SEARCH, SEARCHED, FETCH, COMPACTION], LATER_TOOLS),
]


def test_each_request_of_a_session_extends_the_prompt_of_the_last(version: ModelVersion) -> None:
    first, second, third, compaction = (rendered(version, dict(turn)) for turn in TURNS)
    assert second.startswith(first)
    assert third.startswith(second)
    assert compaction.startswith(third[: third.rindex("<｜Assistant｜>")])


def test_the_billing_header_is_in_no_prompt(version: ModelVersion) -> None:
    for turn in TURNS:
        assert "billing" not in rendered(version, dict(turn))


def test_a_found_tool_is_told_of_after_the_result_that_refers_to_it(version: ModelVersion) -> None:
    shown = rendered(version, dict(TURNS[1]))
    assert shown.count("does WebFetch") == 1
    assert shown.index("look for a tool") < shown.index("WebFetch\n\nWebSearch") < shown.index("does WebFetch")


def test_a_deferred_tool_that_nothing_refers_to_is_in_no_prompt(version: ModelVersion) -> None:
    for turn in TURNS:
        assert "DeferredToolPlaceholder" not in rendered(version, dict(turn))


def test_an_unknown_reference_is_its_name(version: ModelVersion) -> None:
    gone = user(result("toolu_1", [{"type": "tool_reference", "tool_name": "Gone"}]))
    converted = read(version, *OPENING_STRINGS, SEARCH, gone, tools=FIRST_TOOLS)
    assert converted.warnings == ("The tool 'Gone' is referred to but not declared.",)
    assert "Gone" in prompt(version, *OPENING_STRINGS, SEARCH, gone, tools=FIRST_TOOLS)


def test_nothing_that_claude_code_sends_is_unknown(version: ModelVersion) -> None:
    request = dict(TURNS[2])
    converted = read(version, *request.pop("messages"), **request)
    assert converted.unknown_fields == ()
    assert converted.warnings == ()
    assert converted.is_streamed
    assert converted.inference.max_tokens == 32000


def test_strings_are_the_same_as_one_text_block(version: ModelVersion) -> None:
    as_strings = [{"role": role, "content": "words"} for role in ("user", "assistant", "user", "system", "user")]
    as_blocks = [{**message, "content": [text("words", **CACHED)]} for message in as_strings]
    assert prompt(version, *as_strings, system="be kind") == prompt(version, *as_blocks, system=[text("be kind")])


def test_a_string_result_is_the_same_as_one_text_block(version: ModelVersion) -> None:
    calls = [{"role": "user", "content": "go"}, assistant(use("a"))]
    assert prompt(version, *calls, user(result("a", "out"))) == prompt(
        version, *calls, user(result("a", [text("out")]))
    )


def test_too_many_tokens_are_as_many_as_may_be(version: ModelVersion) -> None:
    assert read(version, {"role": "user", "content": "x"}, max_tokens=2**40).inference.max_tokens == 393_216


def test_an_eager_tool_of_pi_is_a_tool(version: ModelVersion) -> None:
    converted = read(version, *OPENING_STRINGS, tools=[tool("read", eager_input_streaming=True)])
    assert [offered.name for offered in converted.conversation.tools] == ["read"]
