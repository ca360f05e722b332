"""Several clients of both libraries at once: nobody waits for another, and no stream is told to the wrong one."""

import asyncio
from collections.abc import Iterator
from typing import Any

import openai

from fakes.scripted_server import TOKENIZER, Served, says, serving
from server.sdk_questions import DONE, ENDLESS, HELLO, USER, async_openai_client, openai_client


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


def test_many_asynchronous_streams_are_never_crossed() -> None:

    async def one(client: openai.AsyncOpenAI, number: int) -> tuple[int, str]:
        message: Any = [{"role": "user", "content": f"Number {number}"}]
        stream = await client.chat.completions.create(
            model="any", messages=message, stream=True, reasoning_effort="none"
        )
        return number, "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def all_of_them(served: Served) -> list[tuple[int, str]]:
        async with async_openai_client(served) as client:
            return await asyncio.gather(*(one(client, number) for number in range(20)))

    lines = [says(f"answer {number} " * 30, delay_ms=1) for number in range(20)]
    with serving(*lines, max_parallel=8, max_waiting=20) as served:
        answers = asyncio.run(all_of_them(served))
        texts = [TOKENIZER.decode(received.ids) for received in served.engine.received]
    for number, answer in answers:
        (order,) = [at for at, text in enumerate(texts) if f"Number {number}<" in text]
        assert answer == f"answer {order} " * 30
