"""What a model drew is never read a second time, whatever the client makes of it: calls, thoughts, split words."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from fakes.gates import PATIENCE_S
from fakes.scripted_server import TOKENIZER, Served, eventually, serving
from whitedwarf.prompt.special import SpecialToken

PARAMETERS = {"type": "object", "properties": {"cmd": {"type": "string"}, "n": {"type": "integer"}}}
BAR = {"special": "｜DSML｜"}
THOUGHT = "I should look."
WORDS = "Let me see."
# The model's own way: parameters in another order than any client's, blanks, and words split as no tokenizer would.
CALL: list[Any] = []
for text in (
    ["\n\n<"],
    ["tool_calls>\n<"],
    ['invoke name="run">\n<'],
    ['parameter name="n" string="false"> 7 </'],
    ["parameter>\n<"],
    ['parameter name="cmd" string="true">l', "s", " -l", "a</"],
    ["parameter>\n</"],
    ["invoke>\n</"],
    ["tool_calls>"],
):
    CALL += [*([BAR] if CALL else []), *text]
ANSWER = {"pieces": ["I sh", "ou", "ld look.", {"special": "</think>"}, "Let ", "me s", "ee.", *CALL]}
FINAL = {"pieces": ["Done", {"special": "</think>"}, "Found."]}


def post(served: Served, path: str, body: dict[str, Any]) -> Any:
    answer = httpx2.post(served.url + path, json={"model": "any", **body}, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    return answer.json()


def chat(served: Served, *, keeps_thoughts: bool) -> None:
    tools = [{"type": "function", "function": {"name": "run", "parameters": PARAMETERS}}]
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Look."}]
    message = post(served, "/v1/chat/completions", {"messages": asked, "tools": tools})["choices"][0]["message"]
    (call,) = message["tool_calls"]
    arguments = json.dumps(dict(sorted(json.loads(call["function"]["arguments"]).items())), separators=(",", ":"))
    call["function"]["arguments"] = arguments
    if not keeps_thoughts:
        message["reasoning_content"] = ""
    asked += [message, {"role": "tool", "tool_call_id": call["id"], "content": "a b"}]
    post(served, "/v1/chat/completions", {"messages": asked, "tools": tools})


def responses(served: Served, *, keeps_thoughts: bool) -> None:
    tools = [{"type": "function", "name": "run", "parameters": PARAMETERS}]
    asked: list[Any] = [{"role": "user", "content": "Look."}]
    output = post(served, "/v1/responses", {"input": asked, "tools": tools, "reasoning": {"summary": "auto"}})["output"]
    (call,) = [item for item in output if item["type"] == "function_call"]
    call["arguments"] = json.dumps(dict(sorted(json.loads(call["arguments"]).items())), indent=1)
    asked += [item for item in output if keeps_thoughts or item["type"] != "reasoning"]
    asked += [{"type": "function_call_output", "call_id": call["call_id"], "output": "a b"}]
    post(served, "/v1/responses", {"input": asked, "tools": tools, "reasoning": {"summary": "auto"}})


def messages(served: Served, *, keeps_thoughts: bool) -> None:
    tools = [{"name": "run", "input_schema": PARAMETERS}]
    more = {"tools": tools, "max_tokens": 200, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    asked: list[Any] = [{"role": "user", "content": "Look."}]
    content = post(served, "/v1/messages", {"messages": asked, **more})["content"]
    (call,) = [block for block in content if block["type"] == "tool_use"]
    call["input"] = dict(sorted(call["input"].items()))
    asked += [
        {"role": "assistant", "content": [b for b in content if keeps_thoughts or b["type"] != "thinking"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "a b"}]},
    ]
    post(served, "/v1/messages", {"messages": asked, **more})


@pytest.mark.parametrize("keeps_thoughts", [True, False])
@pytest.mark.parametrize("turns", [chat, responses, messages])
def test_the_second_turn_reads_only_what_is_new(turns: Callable[..., None], keeps_thoughts: bool) -> None:
    with serving(ANSWER, FINAL) as served:
        turns(served, keeps_thoughts=keeps_thoughts)
        first, second = served.engine.received
        drawn = (*first.ids, *first.generated_ids)
        assert second.ids[: len(drawn)] == drawn
        assert second.reused_tokens == len(drawn)
        new = TOKENIZER.decode(list(second.ids[len(drawn) :]))
        end, user, assistant = SpecialToken.EOS.value, SpecialToken.USER.value, SpecialToken.ASSISTANT.value
        assert new == f"{end}{user}<tool_result>a b</tool_result>{assistant}<think>"


def test_results_alone_go_on_with_the_conversation_they_belong_to() -> None:
    tools = [{"type": "function", "name": "run", "parameters": PARAMETERS}]
    with serving(ANSWER, FINAL) as served:
        output = post(served, "/v1/responses", {"input": "Look.", "tools": tools, "instructions": "Be."})["output"]
        result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "a b"}
        answer = post(served, "/v1/responses", {"input": [result]})
        assert answer["output"][-1]["content"][0]["text"] == "Found."
        first, second = served.engine.received
        assert second.ids[: len(first.ids)] == first.ids
        assert second.reused_tokens == len(first.ids) + len(first.generated_ids)


def test_a_messages_result_alone_goes_on_too() -> None:
    tools = [{"name": "run", "input_schema": PARAMETERS}]
    more = {"tools": tools, "max_tokens": 200, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    with serving(ANSWER, FINAL) as served:
        content = post(served, "/v1/messages", {"messages": [{"role": "user", "content": "Look."}], **more})["content"]
        result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "a b"}
        post(served, "/v1/messages", {"messages": [{"role": "user", "content": [result]}], **more})
        first, second = served.engine.received
        assert second.reused_tokens == len(first.ids) + len(first.generated_ids)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": [{"type": "function_call_output", "call_id": "call_1", "output": "x"}]}),
        (
            "/v1/messages",
            {
                "max_tokens": 9,
                "messages": [
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "x"}]}
                ],
            },
        ),
        ("/v1/chat/completions", {"messages": [{"role": "tool", "tool_call_id": "call_1", "content": "x"}]}),
    ],
)
def test_results_of_calls_that_nobody_knows_ask_for_the_whole_history(path: str, body: dict[str, Any]) -> None:
    with serving(FINAL) as served:
        answer = httpx2.post(served.url + path, json={"model": "any", **body}, timeout=PATIENCE_S)
        assert answer.status_code == 400
        assert "send the full history again" in answer.json()["error"]["message"]


def test_calls_that_a_client_has_changed_are_written_anew() -> None:
    tools = [{"type": "function", "function": {"name": "run", "parameters": PARAMETERS}}]
    asked: list[Any] = [{"role": "user", "content": "Look."}]
    with serving(ANSWER, FINAL) as served:
        message = post(served, "/v1/chat/completions", {"messages": asked, "tools": tools})["choices"][0]["message"]
        (call,) = message["tool_calls"]
        call["function"]["arguments"] = '{"n": 7, "cmd": "ls"}'
        asked += [message, {"role": "tool", "tool_call_id": call["id"], "content": "a b"}]
        post(served, "/v1/chat/completions", {"messages": asked, "tools": tools})
        prompt = TOKENIZER.decode(list(served.last.ids))
        assert '"true">ls</' in prompt
        assert '"false">7</' in prompt
        assert "ls -la" not in prompt


def test_without_tools_thoughts_are_left_out_as_officially_and_the_rest_is_found() -> None:
    said = {"pieces": ["Hm", "m.", {"special": "</think>"}, "Fi", "ne."]}
    asked: list[Any] = [{"role": "user", "content": "How are you?"}]
    with serving(said, said) as served:
        message = post(served, "/v1/chat/completions", {"messages": asked})["choices"][0]["message"]
        asked += [message, {"role": "user", "content": "And now?"}]
        post(served, "/v1/chat/completions", {"messages": asked})
        prompt = TOKENIZER.decode(list(served.last.ids))
        assert "Hmm." not in prompt
        assert served.last.reused_tokens == len(served.engine.received[0].ids) - 1  # up to <think>


def test_a_block_of_calls_ends_the_answer_whatever_the_model_would_say_next() -> None:
    tools = [{"type": "function", "function": {"name": "run", "parameters": PARAMETERS}}]
    asked: list[Any] = [{"role": "user", "content": "Look."}]
    line = {"pieces": [*ANSWER["pieces"], "And ", "more."]}
    with serving(line) as served:
        choice = post(served, "/v1/chat/completions", {"messages": asked, "tools": tools})["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["content"] == WORDS
        assert TOKENIZER.decode(list(served.last.generated_ids)).endswith("tool_calls>")


def test_an_answer_that_was_cut_off_goes_on_from_what_was_drawn() -> None:
    cut = {"pieces": ["No", {"special": "</think>"}, "On", "e two", " thr", "ee four five"], "delay_ms": 150}
    tools = [{"type": "function", "function": {"name": "run", "parameters": PARAMETERS}}]
    asked: list[Any] = [{"role": "user", "content": "Count."}]
    body = {"model": "any", "messages": asked, "tools": tools, "stream": True}
    told = ""
    with serving(cut, FINAL) as served:
        with httpx2.stream("POST", served.url + "/v1/chat/completions", json=body, timeout=PATIENCE_S) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    told += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
                if told == "One two thr":
                    break
        assert eventually(lambda: served.last.finish is not None)
        drawn = served.last.generated_ids
        message = {"role": "assistant", "content": told, "reasoning_content": "No"}
        asked += [message, {"role": "user", "content": "Stop."}]
        post(served, "/v1/chat/completions", {"messages": asked, "tools": tools})
        first, second = served.engine.received
        held = (*first.ids, *drawn)
        assert second.ids[: len(held)] == held
        assert second.reused_tokens == len(held)
