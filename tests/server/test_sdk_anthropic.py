"""The example of the anthropic library's README, and what its documentation shows, sync and async (docs/sdks.md).

The answers are validated strictly against the library's own types.
"""

import asyncio
import json
from typing import Any

import anthropic
import pydantic
import pytest
from anthropic import beta_async_tool, beta_tool

from fakes.scripted_server import MODEL, TOKENIZER, eventually, says, serving
from server.sdk_questions import (
    CALL,
    CITY,
    DONE,
    ENDLESS,
    HELLO,
    MESSAGES_TOOL,
    SLOW,
    THINKING,
    USER,
    anthropic_client,
    async_anthropic_client,
    is_cancelled,
)

RED_DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


class City(pydantic.BaseModel):
    name: str
    inhabitants: int


# Messages


def test_messages_create() -> None:
    with serving(HELLO) as served, anthropic_client(served) as client:
        answer = client.messages.create(
            max_tokens=1024, messages=[{"role": "user", "content": "Hello, Claude"}], model="any", thinking=THINKING
        )
        assert [(block.type, getattr(block, block.type)) for block in answer.content] == [
            ("thinking", "I greet."),
            ("text", "Hello, world!"),
        ]
        assert (answer.stop_reason, answer.role, answer.model) == ("end_turn", "assistant", "any")
        assert answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0) == len(served.last.ids)
        assert answer.usage.output_tokens == len(served.last.generated_ids)
        assert json.loads(answer.to_json())["type"] == "message"


def test_system_prompts_cache_marks_metadata_and_stop_sequences() -> None:
    with serving(says("</think>one two END three")) as served, anthropic_client(served) as client:
        answer = client.messages.create(
            model="any",
            max_tokens=100,
            system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            messages=USER,
            metadata={"user_id": "u1"},
            stop_sequences=["END"],
            extra_body={"temperature": 0.5, "top_k": 5},
        )
        assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "END")
        assert [block.text for block in answer.content if block.type == "text"] == ["one two "]
        assert "Be brief." in TOKENIZER.decode(served.last.ids)


def test_an_image_is_words_to_a_model_that_sees_none_and_the_client_is_told() -> None:
    source: Any = {"type": "base64", "media_type": "image/png", "data": RED_DOT}
    blocks: Any = [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]
    with serving(HELLO) as served, anthropic_client(served) as client:
        raw = client.messages.with_raw_response.create(
            model="any", max_tokens=100, messages=[{"role": "user", "content": blocks}]
        )
        assert "sees no images" in raw.headers["warning"]
        assert raw.parse().stop_reason == "end_turn"
        assert "[Unsupported Image]" in TOKENIZER.decode(served.last.ids)


def test_the_beta_resource_asks_at_the_same_address() -> None:
    with serving(HELLO) as served, anthropic_client(served) as client:
        answer = client.beta.messages.create(
            model="any", max_tokens=100, messages=USER, betas=["interleaved-thinking-2025-05-14"]
        )
        assert answer.content[-1].type == "text"
        assert answer.content[-1].text == "Hello, world!"


def test_max_tokens_cut_the_answer() -> None:
    with serving(HELLO) as served, anthropic_client(served) as client:
        answer = client.messages.create(model="any", max_tokens=1, messages=USER)
        assert answer.stop_reason == "max_tokens"
        assert served.last.options.max_tokens == 1


# Streaming


def test_events_of_a_stream() -> None:
    with serving(HELLO) as served, anthropic_client(served) as client:
        types = [event.type for event in client.messages.create(model="any", max_tokens=9, messages=USER, stream=True)]
    assert (types[0], types[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert types.count("content_block_start") == types.count("content_block_stop") == 2


def test_the_helper_for_streams() -> None:
    with serving(HELLO) as served, anthropic_client(served) as client:
        asked: Any = {"model": "any", "max_tokens": 100, "messages": USER, "thinking": THINKING}
        with client.messages.stream(**asked) as stream:
            pieces = list(stream.text_stream)
            assert "".join(pieces) == "Hello, world!"
            assert len(pieces) > 1
            message = stream.get_final_message()
        assert (message.stop_reason, [block.type for block in message.content]) == ("end_turn", ["thinking", "text"])
        assert message.usage.output_tokens == len(served.last.generated_ids)
        with client.messages.stream(**asked) as stream:
            types = {event.type for event in stream}
            assert stream.get_final_text() == "Hello, world!"
        assert {"text", "thinking", "signature", "content_block_stop", "message_stop"} <= types


def test_asynchronous_clients_answer_stream_and_leave() -> None:
    async def main() -> list[str]:
        asked: Any = {"model": "any", "max_tokens": 400, "messages": USER}
        async with async_anthropic_client(served) as client:
            answer = await client.messages.create(**asked)
            async with client.messages.stream(**asked) as stream:
                streamed = "".join([text async for text in stream.text_stream])
            async with client.messages.stream(**asked) as endless:
                async for _ in endless:
                    break
        return [block.text for block in answer.content if block.type == "text"] + [streamed]

    with serving(HELLO, HELLO, ENDLESS) as served:
        assert asyncio.run(main()) == ["Hello, world!"] * 2
        assert eventually(lambda: is_cancelled(served))


def test_leaving_a_stream_cancels_the_request_p18() -> None:
    with serving(ENDLESS) as served, anthropic_client(served) as client:
        with client.messages.stream(model="any", max_tokens=400, messages=USER) as stream:
            next(iter(stream))
        assert eventually(lambda: is_cancelled(served))
        stream_of_events = client.messages.create(model="any", max_tokens=400, messages=USER, stream=True)
        next(iter(stream_of_events))
        stream_of_events.close()
        assert eventually(lambda: is_cancelled(served) and served.last.number == 2)


# Tools


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_loop_with_tools_computes_only_what_is_new(is_streamed: bool) -> None:
    with serving(CALL, DONE) as served, anthropic_client(served) as client:
        messages: list[Any] = [*USER]
        first = message_of(client, messages, is_streamed)
        assert first.stop_reason == "tool_use"
        known = len(served.last.ids)
        (use,) = [block for block in first.content if block.type == "tool_use"]
        assert (use.name, use.input) == ("run", {"cmd": "ls -la"})
        result = {"type": "tool_result", "tool_use_id": use.id, "content": "a.txt b.txt"}
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        second = message_of(client, messages, is_streamed)
        assert [block.text for block in second.content if block.type == "text"] == ["There are two files."]
        assert second.usage.cache_read_input_tokens == served.last.reused_tokens
        assert served.last.reused_tokens is not None
        assert served.last.reused_tokens >= known


def message_of(client: anthropic.Anthropic, messages: Any, is_streamed: bool) -> Any:
    asked: Any = {"model": "any", "max_tokens": 400, "messages": messages, "tools": [MESSAGES_TOOL]}
    if not is_streamed:
        return client.messages.create(**asked, thinking=THINKING)
    with client.messages.stream(**asked, thinking=THINKING) as stream:
        return stream.get_final_message()


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_library_s_own_loop_runs_the_tools(is_streamed: bool) -> None:
    ran: list[str] = []

    @beta_tool
    def run(cmd: str) -> str:
        """Run a command.

        Args:
            cmd: the command
        """
        ran.append(cmd)
        return "a.txt b.txt"

    asked: Any = {"model": "any", "max_tokens": 400, "messages": USER, "tools": [run]}
    with serving(CALL, DONE) as served, anthropic_client(served) as client:
        if is_streamed:
            *_, last = [stream.get_final_message() for stream in client.beta.messages.tool_runner(**asked, stream=True)]
        else:
            last = client.beta.messages.tool_runner(**asked).until_done()
        assert last.content[-1].type == "text"
        assert last.content[-1].text == "There are two files."
        assert "a.txt b.txt" in TOKENIZER.decode(served.last.ids)
    assert ran == ["ls -la"]


def test_the_library_s_own_loop_runs_asynchronous_tools() -> None:
    @beta_async_tool
    async def run(cmd: str) -> str:
        """Run a command."""
        return f"{cmd}: a.txt b.txt"

    async def main() -> list[str | None]:
        async with async_anthropic_client(served) as client:
            runner = client.beta.messages.tool_runner(model="any", max_tokens=400, messages=USER, tools=[run])
            return [message.stop_reason async for message in runner]

    with serving(CALL, DONE) as served:
        assert asyncio.run(main()) == ["tool_use", "end_turn"]
        assert "ls -la: a.txt b.txt" in TOKENIZER.decode(served.last.ids)


# Structured answers


def test_structured_answers_are_parsed() -> None:
    with serving(CITY) as served, anthropic_client(served) as client:
        asked: Any = {"model": "any", "max_tokens": 400, "messages": USER, "output_format": City}
        assert client.messages.parse(**asked).parsed_output == City(name="Oslo", inhabitants=717710)
        assert "inhabitants" in TOKENIZER.decode(served.last.ids)
        with client.messages.stream(**asked) as stream:
            assert stream.get_final_message().parsed_output == City(name="Oslo", inhabitants=717710)


# Counting, models, raw responses


def test_counting_is_what_the_call_uses_and_waits_for_nobody_p27() -> None:
    with serving(HELLO, SLOW, max_parallel=1) as served, anthropic_client(served) as client:
        asked: Any = {"model": "any", "messages": USER, "tools": [MESSAGES_TOOL], "system": "Be brief."}
        usage = client.messages.create(**asked, max_tokens=100).usage
        stream = client.messages.create(**asked, max_tokens=100, stream=True)
        counted = client.messages.count_tokens(**asked).input_tokens
        beta = client.beta.messages.count_tokens(**asked).input_tokens
        stream.close()
        used = usage.input_tokens + (usage.cache_read_input_tokens or 0)
        assert counted == beta == used == len(served.engine.received[0].ids)


def test_the_list_of_models_is_one_page() -> None:
    async def listed() -> list[str]:
        async with async_anthropic_client(served) as client:
            return [model.id async for model in client.models.list()]

    with serving(HELLO) as served, anthropic_client(served) as client:
        page = client.models.list(limit=20)
        assert [model.id for model in page] == [MODEL.id] == asyncio.run(listed())
        assert (page.has_next_page(), page.first_id, page.last_id) == (False, MODEL.id, MODEL.id)
        one = client.models.retrieve(MODEL.id)
        assert (one.max_input_tokens, one.lifecycle) == (MODEL.context_length, "active")


def test_raw_responses_and_their_headers() -> None:
    with serving(HELLO) as served, anthropic_client(served) as client:
        asked: Any = {"model": "any", "max_tokens": 100, "messages": USER}
        raw = client.messages.with_raw_response.create(**asked)
        assert raw.headers["request-id"] == raw.parse()._request_id
        with client.messages.with_streaming_response.create(**asked, stream=True) as response:
            assert next(iter(response.iter_lines())) == "event: message_start"
