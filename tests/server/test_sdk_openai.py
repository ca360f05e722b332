"""Every example of the openai library's README that applies here, sync and async, and its helpers (docs/sdks.md).

The answers are validated strictly against the library's own types.
"""

import asyncio
import base64
import io
import json
from typing import Any

import httpx2
import openai
import pydantic
import pytest
from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolRunner
from PIL import Image

from fakes.scripted_server import MODEL, TOKENIZER, eventually, says, serving
from server.sdk_questions import (
    CALL,
    CHAT_TOOL,
    CITY,
    DONE,
    ENDLESS,
    HELLO,
    RESPONSES_TOOL,
    USER,
    async_openai_client,
    is_cancelled,
    openai_client,
)


class City(pydantic.BaseModel):
    name: str
    inhabitants: int


def data_url() -> str:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


# Usage


def test_responses_with_instructions() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        answer = client.responses.create(
            model="any",
            instructions="You are a coding assistant that talks like a pirate.",
            input="How do I check if a Python object is an instance of a class?",
        )
        assert answer.output_text == "Hello, world!"
        assert [item.type for item in answer.output] == ["reasoning", "message"]
        assert (answer.status, answer.usage is not None) == ("completed", True)
        assert answer.usage is not None
        assert answer.usage.input_tokens == len(served.last.ids)
        assert "talks like a pirate" in TOKENIZER.decode(served.last.ids)


def test_chat_with_a_developer_message() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        answer = client.chat.completions.create(
            model="any", messages=[{"role": "developer", "content": "Talk like a pirate."}, *USER]
        )
        assert answer.choices[0].message.content == "Hello, world!"
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == len(served.last.ids)
        assert answer.usage.completion_tokens == len(served.last.generated_ids)
        assert "Talk like a pirate." in TOKENIZER.decode(served.last.ids)


@pytest.mark.parametrize("url", ["https://example.com/a.jpg", data_url()], ids=["address", "base64"])
def test_an_image_is_words_to_a_model_that_sees_none_and_the_client_is_told(url: str) -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        parts: Any = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": url}]
        asked: Any = [{"role": "user", "content": parts}]
        raw = client.responses.with_raw_response.create(model="any", input=asked)
        assert "sees no images" in raw.headers["warning"]
        assert raw.parse().output_text == "Hello, world!"
        assert "[Unsupported Image]" in TOKENIZER.decode(served.last.ids)
        parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
        chat = client.chat.completions.with_raw_response.create(
            model="any", messages=[{"role": "user", "content": parts}]
        )
        assert "sees no images" in chat.headers["warning"]


def test_limits_and_effort_are_heard() -> None:
    with serving(HELLO, HELLO, says("Hello!")) as served, openai_client(served) as client:
        for limit in ({"max_tokens": 1}, {"max_completion_tokens": 1}):
            cut = client.chat.completions.create(model="any", messages=USER, **limit)  # type: ignore[call-overload]
            assert cut.choices[0].finish_reason == "length"
            assert served.last.options.max_tokens == 1
        answer = client.chat.completions.create(model="any", messages=USER, reasoning_effort="none")
        assert answer.choices[0].message.content == "Hello!"


# Async usage


def test_asynchronous_clients_answer_and_stream() -> None:
    async def main() -> list[str]:
        async with async_openai_client(served) as client:
            answer = await client.responses.create(model="any", input="Explain disestablishmentarianism.")
            chat = await client.chat.completions.create(model="any", messages=USER)
            stream = await client.responses.create(model="any", input="Write a story.", stream=True)
            told = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            async with client.chat.completions.stream(model="any", messages=USER) as chunks:
                helped = await chunks.get_final_completion()
            async with client.responses.stream(model="any", input="Write a story.") as events:
                final = await events.get_final_response()
        content = [choice.choices[0].message.content or "" for choice in (chat, helped)]
        return [answer.output_text, "".join(told), final.output_text, *content]

    with serving(HELLO) as served:
        assert asyncio.run(main()) == ["Hello, world!"] * 5


def test_with_aiohttp() -> None:
    pytest.importorskip("aiohttp")

    async def main() -> str | None:
        async with async_openai_client(served, http_client=openai.DefaultAioHttpClient()) as client:
            return (await client.chat.completions.create(model="any", messages=USER)).choices[0].message.content

    with serving(HELLO) as served:
        assert asyncio.run(main()) == "Hello, world!"


# Streaming


def test_a_stream_of_responses() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        events = list(client.responses.create(model="any", input="Write a story about a unicorn.", stream=True))
    types = [event.type for event in events]
    assert types[:2] == ["response.created", "response.in_progress"]
    assert types[-1] == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Hello, world!"


def test_a_stream_of_chat() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        usage: Any = {"include_usage": True}
        chunks = list(client.chat.completions.create(model="any", messages=USER, stream=True, stream_options=usage))
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        assert "".join(delta.content or "" for delta in deltas) == "Hello, world!"
        assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "I greet."
        assert len([delta for delta in deltas if delta.content]) > 1
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.prompt_tokens == len(served.last.ids)


def test_the_helper_for_chat_streams() -> None:
    with serving(CALL) as served, openai_client(served) as client:
        with client.chat.completions.stream(model="any", messages=USER, tools=[CHAT_TOOL]) as stream:
            types = {event.type for event in stream}
            message = stream.get_final_completion().choices[0].message
        assert {"content.delta", "content.done", "tool_calls.function.arguments.done"} <= types
        assert message.content == "Looking."
        assert message.tool_calls is not None
        assert json.loads(message.tool_calls[0].function.arguments) == {"cmd": "ls -la"}


def test_leaving_a_stream_cancels_the_request() -> None:
    with serving(ENDLESS) as served, openai_client(served) as client:
        stream = client.chat.completions.create(model="any", messages=USER, stream=True)
        next(iter(stream))
        stream.close()
        assert eventually(lambda: is_cancelled(served))
        with client.responses.stream(model="any", input="Go on.") as events:
            next(iter(events))
        assert eventually(lambda: is_cancelled(served) and served.last.number == 2)


# Using types, nested parameters, structured answers


def test_answers_are_models_with_helpers() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        answer = client.chat.completions.create(model="any", messages=USER)
        assert json.loads(answer.to_json())["choices"][0]["message"]["content"] == "Hello, world!"
        assert answer.to_dict()["object"] == "chat.completion"
        again = type(answer).model_validate(json.loads(answer.model_dump_json()), strict=True)
        assert again.id == answer.id


def test_null_and_missing_can_be_told_apart() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        message = client.chat.completions.create(model="any", messages=USER).choices[0].message
        assert message.tool_calls is None
        assert "tool_calls" not in message.model_fields_set
        response = client.responses.create(model="any", input="Go on.")
        assert response.error is None
        assert "error" in response.model_fields_set


def test_nested_parameters_ask_for_json() -> None:
    with serving(says('</think>{"price": 3}')) as served, openai_client(served) as client:
        form: Any = {"format": {"type": "json_object"}}
        asked: Any = [{"role": "user", "content": "How much, in JSON?"}]
        answer = client.responses.create(model="any", input=asked, text=form)
        assert json.loads(answer.output_text) == {"price": 3}


def test_structured_answers_are_parsed() -> None:
    with serving(CITY) as served, openai_client(served) as client:
        chat = client.chat.completions.parse(model="any", messages=USER, response_format=City)
        assert chat.choices[0].message.parsed == City(name="Oslo", inhabitants=717710)
        answer = client.responses.parse(model="any", input="Which city?", text_format=City)
        assert answer.output_parsed == City(name="Oslo", inhabitants=717710)
        with client.responses.stream(model="any", input="Which city?", text_format=City) as stream:
            assert stream.get_final_response().output_parsed == City(name="Oslo", inhabitants=717710)
        with client.chat.completions.stream(model="any", messages=USER, response_format=City) as chunks:
            parsed = chunks.get_final_completion().choices[0].message.parsed
        assert parsed == City(name="Oslo", inhabitants=717710)


class Run(pydantic.BaseModel):
    """Run a command."""

    cmd: str


def test_the_arguments_of_declared_tools_are_parsed() -> None:
    tool: Any = openai.pydantic_function_tool(Run, name="run")
    with serving(CALL) as served, openai_client(served) as client:
        message = client.chat.completions.parse(model="any", messages=USER, tools=[tool]).choices[0].message
        assert message.tool_calls is not None
        assert message.tool_calls[0].function.parsed_arguments == Run(cmd="ls -la")
        flat: Any = {"type": "function", **tool["function"]}
        answer = client.responses.parse(model="any", input="Go on.", tools=[flat])
        (call,) = [item for item in answer.output if item.type == "function_call"]
        assert json.loads(call.arguments) == {"cmd": "ls -la"}


# Tools


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_loop_with_tools_over_chat_computes_only_what_is_new(is_streamed: bool) -> None:
    with serving(CALL, DONE) as served, openai_client(served) as client:
        messages = [*USER]
        message = chat_message(client, messages, is_streamed)
        first = served.last
        (call,) = message["tool_calls"]
        assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("run", {"cmd": "ls -la"})
        messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "a.txt b.txt"}]
        assert chat_message(client, messages, is_streamed)["content"] == "There are two files."
        assert served.last.reused_tokens is not None
        assert served.last.reused_tokens >= len(first.ids)


def chat_message(client: openai.OpenAI, messages: Any, is_streamed: bool) -> dict[str, Any]:
    if not is_streamed:
        answer = client.chat.completions.create(model="any", messages=messages, tools=[CHAT_TOOL])
        return answer.choices[0].message.model_dump(exclude_none=True)
    with client.chat.completions.stream(model="any", messages=messages, tools=[CHAT_TOOL]) as stream:
        message = stream.get_final_completion().choices[0].message.model_dump(exclude_none=True)
    message.pop("parsed", None)
    return message


def test_a_loop_with_tools_over_responses_computes_only_what_is_new() -> None:
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


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_library_s_own_loop_runs_the_tools(is_streamed: bool) -> None:
    ran: list[dict[str, object]] = []

    def run(arguments: dict[str, object]) -> str:
        ran.append(arguments)
        return "a.txt b.txt"

    runner = ResponsesToolRunner(functions=[RegisteredFunction(RESPONSES_TOOL | {"strict": False}, run)])
    with serving(CALL, DONE) as served, openai_client(served) as client:
        answer = runner.run(client, {"model": "any", "input": USER}, stream=is_streamed)
        assert answer.output_text == "There are two files."
        assert "a.txt b.txt" in TOKENIZER.decode(served.last.ids)
    assert ran == [{"cmd": "ls -la"}]


# Pagination


def test_the_list_of_models_is_one_page() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        page = client.models.list()
        assert [model.id for model in page] == [model.id for model in page.data] == [MODEL.id]
        assert (page.has_next_page(), page.next_page_info()) == (False, None)
        assert client.models.retrieve(MODEL.id).model_extra is not None
        assert client.models.retrieve(MODEL.id).context_length == MODEL.context_length  # type: ignore[attr-defined]


def test_the_list_of_models_is_one_page_to_asynchronous_clients() -> None:
    async def main() -> list[str]:
        async with async_openai_client(served) as client:
            return [model.id async for model in client.models.list()]

    with serving(HELLO) as served:
        assert asyncio.run(main()) == [MODEL.id]


# Advanced


def test_raw_responses_and_their_headers() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        raw = client.chat.completions.with_raw_response.create(model="any", messages=USER)
        assert raw.headers["content-type"] == "application/json"
        assert raw.parse().choices[0].message.content == "Hello, world!"
        with client.chat.completions.with_streaming_response.create(model="any", messages=USER) as response:
            assert response.headers["x-request-id"].startswith("req_")
            assert json.loads("".join(response.iter_lines()))["object"] == "chat.completion"
        with client.responses.with_streaming_response.create(model="any", input="Go on.", stream=True) as lines:
            assert next(lines.iter_lines()) == "event: response.created"


def test_requests_and_fields_that_the_library_does_not_know() -> None:
    with serving(HELLO) as served, openai_client(served) as client:
        body = {"model": "any", "messages": USER}
        asked = client.responses.input_tokens.count(model="any", input=USER)
        counted = client.post("/chat/completions/input_tokens", cast_to=httpx2.Response, body=body).json()
        answer = client.chat.completions.create(
            model="any",
            messages=USER,
            extra_body={"thinking": {"type": "enabled"}, "my_param": True},
            extra_query={"api-version": "1"},
            extra_headers={"x-title": "mine"},
        )
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == counted["input_tokens"] == asked.input_tokens
        assert answer.choices[0].message.reasoning_content == "I greet."  # type: ignore[attr-defined]
        assert answer.choices[0].message.model_extra == {"reasoning_content": "I greet."}


def test_the_http_client_may_be_one_s_own() -> None:
    with serving(HELLO) as served:
        transport = httpx2.HTTPTransport(local_address="127.0.0.1")
        with openai_client(served, http_client=openai.DefaultHttpx2Client(transport=transport)) as client:
            assert client.responses.create(model="any", input="Go on.").output_text == "Hello, world!"


def test_legacy_completions() -> None:
    with serving(says("world!")) as served, openai_client(served) as client:
        assert client.completions.create(model="any", prompt="Hello, ").choices[0].text == "world!"


def test_streams_of_legacy_completions() -> None:
    # The library's type has no null for a finish_reason that is not there yet; OpenAI sends it all the same.
    with serving(says("world!")) as served, openai_client(served, _strict_response_validation=False) as client:
        stream = client.completions.create(model="any", prompt="Hello, ", stream=True)
        assert "".join(chunk.choices[0].text for chunk in stream if chunk.choices) == "world!"
