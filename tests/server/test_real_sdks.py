"""The openai and anthropic libraries as they come, against the server over loopback: what their users do all day."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pydantic
import pytest

from fakes.scripted_server import MODEL, TOKENIZER, Served, calls, eventually, says, serving
from whitedwarf.engine.request import FinishReason

HELLO = says("I greet.</think>Hello, world!")
CALL = says("I look." + "</think>" + "Looking." + calls("run", cmd="ls -la"))
DONE = says("Now I know.</think>There are two files.")
ENDLESS = says("a " * 200, delay_ms=50)
SLOW = says("x", prefill_s=60)
USER: Any = [{"role": "user", "content": "Say hello."}]
TOO_LONG: Any = [{"role": "user", "content": "word " * 5000}]
THINKING: Any = {"type": "enabled", "budget_tokens": 1024}
CHAT_TOOL: Any = {
    "type": "function",
    "function": {
        "name": "run",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
    },
}
RESPONSES_TOOL: Any = {"type": "function", **CHAT_TOOL["function"]}
MESSAGES_TOOL: Any = {
    "name": "run",
    "description": "Run a command.",
    "input_schema": CHAT_TOOL["function"]["parameters"],
}


def openai_client(served: Served, **settings: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, **settings)


def anthropic_client(served: Served, **settings: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=served.url, api_key="none", max_retries=0, **settings)


def is_cancelled(served: Served) -> bool:
    return served.last.finish is FinishReason.CANCELLED


# OpenAI: Chat Completions


def test_chat_create() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        answer = client.chat.completions.create(model="any", messages=USER)
        assert answer.choices[0].message.content == "Hello, world!"
        assert answer.choices[0].message.reasoning_content == "I greet."  # type: ignore[attr-defined]
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == len(served.last.ids)
        assert answer.usage.completion_tokens == len(served.last.generated_ids)


def test_chat_stream() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        stream = client.chat.completions.create(
            model="any", messages=USER, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        assert "".join(delta.content or "" for delta in deltas) == "Hello, world!"
        assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "I greet."
        assert len([delta for delta in deltas if delta.content]) > 1
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.prompt_tokens == len(served.last.ids)


def test_chat_stream_helper() -> None:
    with serving(CALL) as served, openai_client(served) as client:
        with client.chat.completions.stream(model="any", messages=USER, tools=[CHAT_TOOL]) as stream:
            for _ in stream:
                pass
            message = stream.get_final_completion().choices[0].message
        assert message.content == "Looking."
        assert message.tool_calls is not None
        assert json.loads(message.tool_calls[0].function.arguments) == {"cmd": "ls -la"}


@pytest.mark.parametrize("is_streamed", [False, True])
def test_chat_tools_loop_computes_only_what_is_new(is_streamed: bool) -> None:
    with serving(CALL, DONE) as served, openai_client(served) as client:
        messages = [*USER]
        message = _chat_message(client, messages, is_streamed)
        first = served.last
        (call,) = message["tool_calls"]
        assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("run", {"cmd": "ls -la"})
        messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "a.txt b.txt"}]
        assert _chat_message(client, messages, is_streamed)["content"] == "There are two files."
        assert served.last.reused_tokens is not None
        assert served.last.reused_tokens >= len(first.ids)


def _chat_message(client: openai.OpenAI, messages: Any, is_streamed: bool) -> dict[str, Any]:
    if not is_streamed:
        answer = client.chat.completions.create(model="any", messages=messages, tools=[CHAT_TOOL])
        return answer.choices[0].message.model_dump(exclude_none=True)
    with client.chat.completions.stream(model="any", messages=messages, tools=[CHAT_TOOL]) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message.model_dump(exclude_none=True)
    message.pop("parsed", None)
    return message


def test_chat_max_tokens() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        answer = client.chat.completions.create(model="any", messages=USER, max_tokens=1)
        assert answer.choices[0].finish_reason == "length"
        assert served.last.options.max_tokens == 1


def test_chat_without_thinking() -> None:
    with serving(says("Hello!")) as served, openai_client(served) as client:
        answer = client.chat.completions.create(model="any", messages=USER, reasoning_effort="none")
        assert answer.choices[0].message.content == "Hello!"


# OpenAI: errors, models, legacy, cancel


def test_errors_have_the_librarys_own_types() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        with pytest.raises(openai.BadRequestError, match="n"):
            client.chat.completions.create(model="any", messages=USER, n=2)
        with pytest.raises(openai.BadRequestError) as overflow:
            client.chat.completions.create(model="any", messages=TOO_LONG, stream=True)
        assert overflow.value.code == "context_length_exceeded"
        assert str(MODEL.context_length) in overflow.value.message
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("another")
        assert served.engine.last_received is None


def test_a_full_queue_is_too_many_requests() -> None:
    with serving(SLOW, max_parallel=1, max_waiting=1) as served:
        for number in (1, 2):  # one runs, one waits
            served.engine.submit([number])
            assert eventually(lambda: served.engine.received[0].reused_tokens is not None)
        with openai_client(served) as client, pytest.raises(openai.RateLimitError) as busy:
            client.chat.completions.create(model="any", messages=USER)
        assert int(busy.value.response.headers["retry-after"]) > 0
        with anthropic_client(served) as messages, pytest.raises(anthropic.APIStatusError) as overloaded:
            messages.messages.create(model="any", max_tokens=10, messages=USER)
        assert overloaded.value.status_code in (429, 529)


def test_models() -> None:
    with serving(HELLO) as served, openai_client(served) as client, anthropic_client(served) as other:
        assert [model.id for model in client.models.list()] == [MODEL.id]
        assert client.models.retrieve(MODEL.id).context_length == MODEL.context_length  # type: ignore[attr-defined]
        assert [model.id for model in other.models.list()] == [MODEL.id]


def test_legacy_completions() -> None:
    with serving(says("world!")) as served, openai_client(served) as client:
        assert client.completions.create(model="any", prompt="Hello, ").choices[0].text == "world!"
        stream = client.completions.create(model="any", prompt="Hello, ", stream=True)
        assert "".join(chunk.choices[0].text for chunk in stream if chunk.choices) == "world!"


def test_leaving_an_openai_stream_cancels_the_request_p18() -> None:
    with serving(ENDLESS) as served, openai_client(served) as client:
        stream = client.chat.completions.create(model="any", messages=USER, stream=True)
        next(iter(stream))
        stream.close()
        assert eventually(lambda: is_cancelled(served), 2.0)


@pytest.mark.parametrize("line", [ENDLESS, SLOW], ids=["answering", "reading"])
def test_a_timeout_cancels_the_request_p18(line: dict[str, Any]) -> None:
    with serving(line) as served:
        with openai_client(served, timeout=0.5) as client, pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(model="any", messages=USER)
        assert eventually(lambda: is_cancelled(served), 2.0)
        with anthropic_client(served, timeout=0.5) as other, pytest.raises(anthropic.APITimeoutError):
            other.messages.create(model="any", max_tokens=400, messages=USER)
        assert eventually(lambda: is_cancelled(served) and served.last.number == 2, 2.0)


# OpenAI: Responses


def test_responses_create() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        answer = client.responses.create(model="any", input="Say hello.")
        assert answer.output_text == "Hello, world!"
        assert [item.type for item in answer.output] == ["reasoning", "message"]
        assert answer.status == "completed"
        assert answer.usage is not None
        assert answer.usage.input_tokens == len(served.last.ids)


def test_responses_stream_p24() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        events = list(client.responses.create(model="any", input="Say hello.", stream=True))
    types = [event.type for event in events]
    assert types[:2] == ["response.created", "response.in_progress"]
    assert types[-1] == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Hello, world!"


def test_responses_stream_helper_and_tools_loop() -> None:
    with serving(CALL, DONE) as served, openai_client(served) as client:
        history: list[Any] = [*USER]
        with client.responses.stream(model="any", input=history, tools=[RESPONSES_TOOL]) as stream:
            first = stream.until_done().get_final_response()
        (call,) = [item for item in first.output if item.type == "function_call"]
        assert (call.name, json.loads(call.arguments)) == ("run", {"cmd": "ls -la"})
        history += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output]
        history.append({"type": "function_call_output", "call_id": call.call_id, "output": "a.txt b.txt"})
        known = len(served.last.ids)
        second = client.responses.create(model="any", input=history, tools=[RESPONSES_TOOL])
        assert second.output_text == "There are two files."
        assert second.usage is not None
        assert second.usage.input_tokens_details.cached_tokens == served.last.reused_tokens
        assert served.last.reused_tokens is not None
        assert served.last.reused_tokens >= known


# Anthropic: Messages


def test_messages_create() -> None:
    with serving(HELLO) as served, anthropic_client(served) as client:
        answer = client.messages.create(model="any", max_tokens=100, messages=USER, thinking=THINKING)
        assert [(block.type, getattr(block, block.type)) for block in answer.content] == [
            ("thinking", "I greet."),
            ("text", "Hello, world!"),
        ]
        assert answer.stop_reason == "end_turn"
        assert answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0) == len(served.last.ids)


def test_messages_stream() -> None:
    with (
        serving(HELLO) as served,
        anthropic_client(served) as client,
        client.messages.stream(model="any", max_tokens=100, messages=USER, thinking=THINKING) as stream,
    ):
        pieces = list(stream.text_stream)
        assert "".join(pieces) == "Hello, world!"
        assert len(pieces) > 1
        message = stream.get_final_message()
        assert (message.stop_reason, [block.type for block in message.content]) == ("end_turn", ["thinking", "text"])
        assert message.usage.output_tokens == len(served.last.generated_ids)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_messages_tools_loop_computes_only_what_is_new(is_streamed: bool) -> None:
    with serving(CALL, DONE) as served, anthropic_client(served) as client:
        messages: list[Any] = [*USER]
        first = _message(client, messages, is_streamed)
        assert first.stop_reason == "tool_use"
        known = len(served.last.ids)
        (use,) = [block for block in first.content if block.type == "tool_use"]
        assert (use.name, use.input) == ("run", {"cmd": "ls -la"})
        result = {"type": "tool_result", "tool_use_id": use.id, "content": "a.txt b.txt"}
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        second = _message(client, messages, is_streamed)
        assert [block.text for block in second.content if block.type == "text"] == ["There are two files."]
        assert second.usage.cache_read_input_tokens == served.last.reused_tokens
        assert served.last.reused_tokens is not None
        assert served.last.reused_tokens >= known


def _message(client: anthropic.Anthropic, messages: Any, is_streamed: bool) -> Any:
    asked: Any = {"model": "any", "max_tokens": 400, "messages": messages, "tools": [MESSAGES_TOOL]}
    if not is_streamed:
        return client.messages.create(**asked, thinking=THINKING)
    with client.messages.stream(**asked, thinking=THINKING) as stream:
        return stream.get_final_message()


def test_count_tokens_is_what_the_call_uses_and_waits_for_nobody_p27() -> None:
    with serving(HELLO, SLOW, max_parallel=1) as served, anthropic_client(served) as client:
        asked: Any = {"model": "any", "messages": USER, "tools": [MESSAGES_TOOL], "system": "Be brief."}
        usage = client.messages.create(**asked, max_tokens=100).usage
        stream = client.messages.create(**asked, max_tokens=100, stream=True)
        counted = client.messages.count_tokens(**asked).input_tokens
        stream.close()
        assert (
            counted == usage.input_tokens + (usage.cache_read_input_tokens or 0) == len(served.engine.received[0].ids)
        )


def test_anthropic_errors_have_the_librarys_own_types() -> None:
    with serving(HELLO) as served, anthropic_client(served) as client:
        with pytest.raises(anthropic.BadRequestError) as overflow:
            client.messages.create(model="any", max_tokens=10, messages=TOO_LONG)
        assert "prompt is too long" in str(overflow.value)
        with pytest.raises(anthropic.BadRequestError):
            client.messages.create(model="any", max_tokens=0, messages=USER)


def test_leaving_an_anthropic_stream_cancels_the_request_p18() -> None:
    with serving(ENDLESS) as served, anthropic_client(served) as client:
        with client.messages.stream(model="any", max_tokens=400, messages=USER) as stream:
            next(iter(stream))
        assert eventually(lambda: is_cancelled(served), 2.0)


# Several at once


def test_a_second_client_does_not_wait_for_the_first_p29() -> None:
    with serving(ENDLESS, HELLO, DONE, max_parallel=2) as served, openai_client(served) as client:
        stream: Iterator[Any] = iter(client.chat.completions.create(model="any", messages=USER, stream=True))
        next(stream)
        other: Any = [{"role": "user", "content": "Something else."}]
        answer = client.chat.completions.create(model="any", messages=other)
        assert answer.choices[0].message.content == "Hello, world!"
        assert served.engine.received[0].finish is None
        client.chat.completions.create(model="any", messages=other)
        assert served.last.reused_tokens == len(served.last.ids) - 1


# Asynchronous, structured


def test_asynchronous_clients_stream_and_leave_p18() -> None:
    async def read_and_leave(served: Served) -> str:
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
            stream = await client.chat.completions.create(model="any", messages=USER, stream=True)
            texts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        async with (
            anthropic.AsyncAnthropic(base_url=served.url, api_key="none", max_retries=0) as other,
            other.messages.stream(model="any", max_tokens=400, messages=USER) as messages,
        ):
            async for _ in messages:
                break
        return "".join(texts)

    with serving(HELLO, ENDLESS) as served:
        assert asyncio.run(read_and_leave(served)) == "Hello, world!"
        assert eventually(lambda: is_cancelled(served), 2.0)


def test_many_asynchronous_streams_are_never_crossed() -> None:

    async def one(client: openai.AsyncOpenAI, number: int) -> tuple[int, str]:
        message: Any = [{"role": "user", "content": f"Number {number}"}]
        stream = await client.chat.completions.create(
            model="any", messages=message, stream=True, reasoning_effort="none"
        )
        return number, "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def all_of_them(served: Served) -> list[tuple[int, str]]:
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(one(client, number) for number in range(20)))

    lines = [says(f"answer {number} " * 30, delay_ms=1) for number in range(20)]
    with serving(*lines, max_parallel=8, max_waiting=20) as served:
        answers = asyncio.run(all_of_them(served))
        texts = [TOKENIZER.decode(received.ids) for received in served.engine.received]
    for number, answer in answers:
        (order,) = [at for at, text in enumerate(texts) if f"Number {number}<" in text]
        assert answer == f"answer {order} " * 30


class City(pydantic.BaseModel):
    name: str
    inhabitants: int


def test_structured_answers_are_parsed() -> None:
    with (
        serving(says('Oslo.</think>{"name": "Oslo", "inhabitants": 717710}')) as served,
        openai_client(served) as client,
    ):
        chat = client.chat.completions.parse(model="any", messages=USER, response_format=City)
        assert chat.choices[0].message.parsed == City(name="Oslo", inhabitants=717710)
        answer = client.responses.parse(model="any", input="Which city?", text_format=City)
        assert answer.output_parsed == City(name="Oslo", inhabitants=717710)
