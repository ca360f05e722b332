"""Public demand.md cases that need the whole server and a model that says just this."""

import json
from typing import Any

import httpx2
import pytest

from fakes.gates import PATIENCE_S
from fakes.scripted_server import Served, calls, says, serving

ASKED = [{"role": "user", "content": "Go on."}]
PARAMETERS = {"type": "object", "properties": {"cmd": {"type": "string"}}}
CHAT_TOOLS = [{"type": "function", "function": {"name": "run", "parameters": PARAMETERS}}]
RESPONSES_TOOLS = [{"type": "function", "name": "run", "parameters": PARAMETERS}]
MESSAGES_TOOLS = [{"name": "run", "input_schema": PARAMETERS}]
CHAT: dict[str, Any] = {"messages": ASKED, "reasoning_effort": "none"}
RESPONSES: dict[str, Any] = {"input": ASKED, "reasoning": {"effort": "none"}}
MESSAGES: dict[str, Any] = {"messages": ASKED, "max_tokens": 400, "thinking": {"type": "disabled"}}
HEDGEHOG = {
    "pieces": ["ok ", *({"bytes": digits} for digits in ("f09f", "a6", "94", "e6", "bca2"))],
    "finish": "stop",
}


def ask(served: Served, path: str, body: dict[str, Any]) -> Any:
    answer = httpx2.post(served.url + path, json={"model": "any", **body}, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    return answer.json()


def told(served: Served, path: str, body: dict[str, Any]) -> list[Any]:
    """The events of a stream, each line of which is valid UTF-8."""
    answer = httpx2.post(served.url + path, json={"model": "any", "stream": True, **body}, timeout=PATIENCE_S)
    lines = answer.content.decode("utf-8", "strict").splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def chat_text(events: list[Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


def messages_text(events: list[Any]) -> str:
    return "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")


def responses_text(events: list[Any]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


@pytest.mark.parametrize("stop", ["END_HERE", ["END_HERE"], ["one", "two", "three", "END_HERE"]], ids=str)
def test_a_stop_string_in_pieces_is_never_shown_p19(stop: Any) -> None:
    with serving({"pieces": ["abc", "EN", "D_", "HERE", "xyz"]}) as served:
        events = told(served, "/v1/chat/completions", {**CHAT, "stop": stop})
        assert chat_text(events) == "abc"
        assert [choice["finish_reason"] for event in events for choice in event["choices"]][-1] == "stop"
        sequences = [stop] if isinstance(stop, str) else stop
        events = told(served, "/v1/messages", {**MESSAGES, "stop_sequences": sequences})
        assert messages_text(events) == "abc"
        (end,) = [event["delta"] for event in events if event["type"] == "message_delta"]
        assert (end["stop_reason"], end["stop_sequence"]) == ("stop_sequence", "END_HERE")


def test_what_only_began_like_a_stop_string_is_shown_p19() -> None:
    with serving({"pieces": ["abc", "EN", "D_", "THERE", "xyz"]}) as served:
        events = told(served, "/v1/chat/completions", {**CHAT, "stop": "END_HERE"})
    assert chat_text(events) == "abcEND_THERExyz"


def test_characters_split_over_tokens_arrive_whole_p20() -> None:
    with serving(HEDGEHOG) as served:
        assert chat_text(told(served, "/v1/chat/completions", CHAT)) == "ok 🦔漢"
        assert messages_text(told(served, "/v1/messages", MESSAGES)) == "ok 🦔漢"
        assert responses_text(told(served, "/v1/responses", RESPONSES)) == "ok 🦔漢"
        answer = ask(served, "/v1/chat/completions", CHAT)
        assert answer["choices"][0]["message"]["content"] == "ok 🦔漢"


def test_bytes_that_are_no_character_hold_up_nothing_p20() -> None:
    with serving({"pieces": ["a", {"bytes": "ff"}, "b", {"bytes": "f09f"}]}) as served:
        assert chat_text(told(served, "/v1/chat/completions", CHAT)) == "a�b�"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_call_that_was_cut_is_no_call_p21(is_streamed: bool) -> None:
    whole = says(calls("run", cmd="rm -rf one two three four five six"))
    cut = {"pieces": whole["pieces"][:-12], "finish": "length"}
    with serving(cut) as served:
        chat, responses, messages = (
            {**CHAT, "tools": CHAT_TOOLS},
            {**RESPONSES, "tools": RESPONSES_TOOLS},
            {**MESSAGES, "tools": MESSAGES_TOOLS},
        )
        if not is_streamed:
            choice = ask(served, "/v1/chat/completions", chat)["choices"][0]
            assert (choice["finish_reason"], choice["message"].get("tool_calls")) == ("length", None)
            answer = ask(served, "/v1/messages", messages)
            assert answer["stop_reason"] == "max_tokens"
            assert [block for block in answer["content"] if block["type"] == "tool_use"] == []
            assert ask(served, "/v1/responses", responses)["status"] == "incomplete"
            return
        events = told(served, "/v1/chat/completions", chat)
        assert [choice["finish_reason"] for event in events for choice in event["choices"]][-1] == "length"
        deltas = [choice["delta"] for event in events for choice in event["choices"]]
        pieces = [call["function"].get("arguments", "") for delta in deltas for call in delta.get("tool_calls") or []]
        assert not is_json("".join(pieces))
        assert told(served, "/v1/responses", responses)[-1]["type"] == "response.incomplete"


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_a_patch_comes_back_as_the_item_that_codex_expects_p23() -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch"
    tool = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}
    body: dict[str, Any] = {**RESPONSES, "tools": [tool]}
    with serving(says(calls("apply_patch", input=patch)), says("Applied.")) as served:
        events = told(served, "/v1/responses", body)
        types = [event["type"] for event in events]
        assert "response.custom_tool_call_input.done" in types
        (item,) = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", patch)
        result = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "Done."}
        second = ask(served, "/v1/responses", {**body, "input": [*ASKED, item, result]})
        assert second["output"][-1]["content"][0]["text"] == "Applied."


def test_an_answer_cut_while_thinking_says_so_p08() -> None:
    with serving({"pieces": ["I think and think"], "finish": "length"}) as served:
        choice = ask(served, "/v1/chat/completions", {"messages": ASKED})["choices"][0]
        assert choice["message"]["reasoning_content"] == "I think and think"
        assert not choice["message"]["content"]
        assert choice["finish_reason"] == "length"
        answer = ask(served, "/v1/messages", {**MESSAGES, "thinking": {"type": "enabled", "budget_tokens": 1024}})
        assert [block["type"] for block in answer["content"]] == ["thinking"]
        assert answer["stop_reason"] == "max_tokens"


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/chat/completions", CHAT), ("/v1/messages", MESSAGES), ("/v1/responses", RESPONSES)]
)
def test_regenerating_computes_nothing_again_p13(path: str, body: dict[str, Any]) -> None:
    with serving(says("Hello.")) as served:
        for _ in range(2):
            ask(served, path, body)
        assert served.last.reused_tokens == len(served.last.ids) - 1
