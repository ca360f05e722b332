"""What the openai and anthropic libraries make of our refusals: classes, ids, retries, time-outs, connections."""

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pydantic
import pytest

from fakes.scripted_server import MODEL, TOKENIZER, Served, eventually, serving
from server.sdk_questions import (
    ENDLESS,
    HELLO,
    SLOW,
    TOO_LONG,
    USER,
    anthropic_client,
    async_anthropic_client,
    async_openai_client,
    is_cancelled,
    openai_client,
)
from server.serving import HandEngine, Submitted, finished
from server.serving import serving as serving_by_hand
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import FinishReason, Prefilled, Token
from whitedwarf.errors import BackendError
from whitedwarf.web.auth import ApiKeys

EVIL: Any = {"origin": "https://evil.example"}
NO_JSON: Any = {"content-type": "text/plain"}


@pytest.fixture
def hello() -> Iterator[Served]:
    with serving(HELLO) as served:
        yield served


def openai_failure(client: openai.OpenAI, **members: Any) -> openai.APIStatusError:
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(**{"model": "any", "messages": USER, **members})
    return caught.value


def anthropic_failure(client: anthropic.Anthropic, **members: Any) -> anthropic.APIStatusError:
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(**{"model": "any", "messages": USER, "max_tokens": 10, **members})
    return caught.value


# Classes by status


def test_a_bad_request_is_400(hello: Served) -> None:
    with openai_client(hello) as client, anthropic_client(hello) as other:
        assert isinstance(openai_failure(client, n=9), openai.BadRequestError)
        too_long = openai_failure(client, messages=TOO_LONG, stream=True)
        assert isinstance(too_long, openai.BadRequestError)
        assert (too_long.code, too_long.type) == ("context_length_exceeded", "invalid_request_error")
        assert str(MODEL.context_length) in too_long.message
        assert isinstance(anthropic_failure(other, max_tokens=0), anthropic.BadRequestError)
        said = anthropic_failure(other, messages=TOO_LONG)
        assert isinstance(said, anthropic.BadRequestError)
        assert "prompt is too long" in str(said)
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="any", input=TOO_LONG)
        assert caught.value.code == "context_length_exceeded"
    assert hello.engine.last_received is None


def test_a_wrong_key_is_401_and_a_right_one_is_taken_in_either_form() -> None:
    with serving(HELLO, keys=ApiKeys(["right"])) as served:
        with openai_client(served, api_key="wrong") as client, anthropic_client(served, api_key="wrong") as other:
            assert isinstance(openai_failure(client), openai.AuthenticationError)
            assert isinstance(anthropic_failure(other), anthropic.AuthenticationError)
            assert client.with_options(api_key="right").chat.completions.create(model="any", messages=USER).id
            assert other.with_options(api_key="right").messages.create(model="any", messages=USER, max_tokens=9).id
        with anthropic_client(served, api_key=None, auth_token="right") as bearer:
            assert bearer.messages.create(model="any", messages=USER, max_tokens=9).id


def test_a_page_of_another_site_is_403(hello: Served) -> None:
    with openai_client(hello) as client, anthropic_client(hello) as other:
        assert isinstance(openai_failure(client, extra_headers=EVIL), openai.PermissionDeniedError)
        assert isinstance(anthropic_failure(other, extra_headers=EVIL), anthropic.PermissionDeniedError)


def test_what_is_not_here_is_404(hello: Served) -> None:
    with openai_client(hello) as client, anthropic_client(hello) as other:
        with pytest.raises(openai.NotFoundError) as caught:
            client.models.retrieve("another")
        assert caught.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError):
            client.files.list()
        with pytest.raises(openai.NotFoundError):
            client.fine_tuning.jobs.list(limit=20)
        with pytest.raises(anthropic.NotFoundError):
            other.models.retrieve("another")
        with pytest.raises(anthropic.NotFoundError):
            other.messages.batches.list()


def test_a_body_that_is_too_large_is_413() -> None:
    with (
        serving(HELLO, max_body_bytes=10_000) as served,
        openai_client(served) as client,
        anthropic_client(served) as other,
    ):
        assert openai_failure(client, messages=TOO_LONG).status_code == 413
        assert isinstance(anthropic_failure(other, messages=TOO_LONG), anthropic.RequestTooLargeError)


def test_a_body_that_is_not_called_json_is_415(hello: Served) -> None:
    with openai_client(hello) as client, anthropic_client(hello) as other:
        assert openai_failure(client, extra_headers=NO_JSON).status_code == 415
        assert anthropic_failure(other, extra_headers=NO_JSON).status_code == 415


def test_a_full_queue_is_429_with_a_time_to_wait() -> None:
    with serving(SLOW, max_parallel=1, max_waiting=1) as served:
        for number in (1, 2):  # one runs, one waits
            served.engine.submit([number])
            assert eventually(lambda: served.engine.received[0].reused_tokens is not None)
        with openai_client(served) as client, anthropic_client(served) as other:
            busy = openai_failure(client)
            assert isinstance(busy, openai.RateLimitError)
            assert int(busy.response.headers["retry-after"]) > 0
            assert isinstance(anthropic_failure(other), anthropic.RateLimitError)


def test_a_server_that_shuts_down_is_503(hello: Served) -> None:
    with openai_client(hello) as client, anthropic_client(hello) as other:
        hello.engine.close()
        failure = openai_failure(client)
        assert (isinstance(failure, openai.InternalServerError), failure.status_code) == (True, 503)
        said = anthropic_failure(other)
        assert (isinstance(said, anthropic.InternalServerError), said.status_code) == (True, 503)


def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    client = openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="none", max_retries=0)
    with client, pytest.raises(openai.APIConnectionError) as caught:
        client.models.list()
    assert caught.value.__cause__ is not None
    other = anthropic.Anthropic(base_url="http://127.0.0.1:9", api_key="none", max_retries=0)
    with other, pytest.raises(anthropic.APIConnectionError):
        other.models.list()


# Ids of requests


def test_every_answer_and_every_failure_has_a_request_id(hello: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="whitedwarf")
    with openai_client(hello) as client, anthropic_client(hello) as other:
        ids = [
            client.responses.create(model="any", input="Say 'this is a test'.")._request_id,
            client.chat.completions.create(model="any", messages=USER)._request_id,
            other.messages.create(model="any", max_tokens=10, messages=USER)._request_id,
            openai_failure(client, n=9).request_id,
            anthropic_failure(other, max_tokens=0).request_id,
        ]
        listed = [client.models.retrieve(MODEL.id)._request_id, other.models.retrieve(MODEL.id)._request_id]
    assert all(one is not None and one.startswith("req_") for one in (*ids, *listed))
    assert len({*ids, *listed}) == 7
    assert eventually(lambda: {getattr(record, "id", None) for record in caplog.records} >= set(ids))


# Retries and time-outs


def test_what_is_refused_for_now_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whitedwarf.server.refusal.RETRY_AFTER_S", 1)
    with serving(SLOW, SLOW, HELLO, max_parallel=1, max_waiting=1) as served, openai_client(served) as client:
        blocking = [served.engine.submit([1])]
        assert eventually(lambda: served.engine.received[0].reused_tokens is not None)
        blocking.append(served.engine.submit([2]))
        assert isinstance(openai_failure(client), openai.RateLimitError)
        asyncio.run(_ask_and_free_later(served, blocking))


async def _ask_and_free_later(served: Served, blocking: list[Generation]) -> None:
    async with async_openai_client(served, max_retries=5) as client, async_anthropic_client(served) as other:
        asking = asyncio.create_task(client.chat.completions.create(model="any", messages=USER))
        await asyncio.sleep(0.3)
        for one in blocking:
            one.cancel()
        assert (await asking).choices[0].message.content == "Hello, world!"
        again = other.with_options(max_retries=2)
        assert (await again.messages.create(model="any", max_tokens=90, messages=USER)).stop_reason == "end_turn"


@pytest.mark.parametrize("line", [ENDLESS, SLOW], ids=["answering", "reading"])
def test_a_time_out_cancels_the_request_p18(line: dict[str, Any]) -> None:
    with serving(line) as served:
        with openai_client(served, timeout=0.5) as client, pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(model="any", messages=USER)
        assert eventually(lambda: is_cancelled(served))
        with anthropic_client(served, timeout=0.5) as other, pytest.raises(anthropic.APITimeoutError):
            other.messages.create(model="any", max_tokens=400, messages=USER)
        assert eventually(lambda: is_cancelled(served) and served.last.number == 2)


def test_time_outs_of_every_form() -> None:
    slow_read = httpx2.Timeout(60.0, read=0.3, write=10.0, connect=2.0)
    with serving(SLOW) as served, openai_client(served, timeout=slow_read) as client:
        with pytest.raises(openai.APITimeoutError):
            client.responses.create(model="any", input="Go on.")
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.3).chat.completions.create(model="any", messages=USER)
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(model="any", messages=USER, timeout=0.3)


def test_a_stream_that_is_alive_does_not_run_into_the_time_out_of_reading() -> None:
    with (
        serving({**HELLO, "prefill_s": 2.0}, keepalive_s=0.2) as served,
        openai_client(served, timeout=1.0) as client,
        anthropic_client(served, timeout=1.0) as other,
    ):
        stream = client.chat.completions.create(model="any", messages=USER, stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
        with other.messages.stream(model="any", max_tokens=100, messages=USER) as messages:
            assert text == messages.get_final_text() == "Hello, world!"


# Connections


def test_a_closed_client_leaves_nothing_running() -> None:
    with serving(ENDLESS) as served:
        client = openai_client(served)
        stream = client.chat.completions.create(model="any", messages=USER, stream=True)
        next(iter(stream))
        client.close()
        assert client.is_closed()
        assert eventually(lambda: is_cancelled(served))


def test_cancelled_tasks_leave_nothing_running() -> None:
    async def main() -> None:
        async with async_openai_client(served) as client, async_anthropic_client(served) as other:
            for asked in (
                client.chat.completions.create(model="any", messages=USER),
                other.messages.create(model="any", max_tokens=400, messages=USER),
            ):
                task = asyncio.create_task(asked)
                await asyncio.sleep(0.3)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    with serving(ENDLESS) as served:
        asyncio.run(main())
        assert eventually(lambda: all(one.finish is not None for one in served.engine.received))
        assert [one.finish for one in served.engine.received] == [served.last.finish] * 2
        assert is_cancelled(served)


def test_one_connection_serves_many_requests_even_after_a_refusal(hello: Served) -> None:
    with openai_client(hello) as client:
        for _ in range(3):
            assert client.chat.completions.create(model="any", messages=USER).choices
            assert openai_failure(client, n=9).status_code == 400


# Failures after the headers


def breaks(submitted: Submitted) -> None:
    """Two words, then the engine gives up."""
    words = [Token(one) for one in TOKENIZER.encode("Hello there")]
    submitted.put(Prefilled(0, 1), Prefilled(1, 1), *words)
    submitted.put(finished(FinishReason.ERROR, error=BackendError("out of memory")))


def test_an_answer_that_breaks_off_is_an_error_of_the_library() -> None:
    with (
        serving_by_hand(HandEngine(play=breaks), TOKENIZER) as served,
        openai_client(served) as client,
        anthropic_client(served) as other,
    ):
        with pytest.raises(openai.APIError, match="out of memory"):
            list(client.chat.completions.create(model="any", messages=USER, stream=True))
        *_, last = client.responses.create(model="any", input="Go on.", stream=True)
        assert last.type == "response.failed"
        assert last.response.error is not None
        assert "out of memory" in last.response.error.message
        with pytest.raises(anthropic.APIError, match="out of memory"):
            list(other.messages.create(model="any", max_tokens=10, messages=USER, stream=True))
        with (
            pytest.raises(anthropic.APIError, match="out of memory"),
            other.messages.stream(model="any", max_tokens=10, messages=USER) as stream,
        ):
            stream.get_final_message()


def test_an_answer_that_breaks_off_before_it_is_sent_is_500() -> None:
    with (
        serving_by_hand(HandEngine(play=breaks), TOKENIZER) as served,
        openai_client(served) as client,
        anthropic_client(served) as other,
    ):
        failure, said = openai_failure(client), anthropic_failure(other)
        assert (isinstance(failure, openai.InternalServerError), failure.status_code) == (True, 500)
        assert (isinstance(said, anthropic.InternalServerError), said.status_code) == (True, 500)


def test_an_answer_too_short_to_be_parsed_is_the_library_s_own_error(hello: Served) -> None:
    class Greeting(pydantic.BaseModel):
        text: str

    with openai_client(hello) as client, pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model="any", messages=USER, response_format=Greeting, max_tokens=2)
