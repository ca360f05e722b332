"""Asking servers: what they are sent, what they may say, and what they may do wrong."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from evals.answering import ASKING, letters
from fakes.chat_server import ChatServer, Handler, Step, chat_server, status, stream
from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.evals.answer import Answer
from whitedwarf.evals.exam import Exam, Phase
from whitedwarf.evals.prompts import SYSTEM_PROMPT, question_prompt
from whitedwarf.evals.target import Asking, NoMoreQuestionsError
from whitedwarf.evals.target_url import ATTEMPTS, UrlTarget
from whitedwarf.web.endpoint.server_options import server_options

CASES = letters("a", "b", "c")
GOOD = stream({"reasoning_content": "Hm."}, {"content": "Answer: B"})


def target_of(url: str, key: str | None = None, model: str | None = "m", extra: str | None = None) -> UrlTarget:
    variables = {} if key is None else {"KEY": key}
    return UrlTarget(server_options(url, "KEY" if key else None, model, extra, variables), first_pause_s=0.001)


def ask(target: UrlTarget, asking: Asking = ASKING) -> Answer:
    answer = Answer()
    anyio.run(target.ask, CASES[0], asking, answer)
    return answer


def test_a_question_is_asked_and_its_answer_read() -> None:
    with chat_server(GOOD) as server:
        answer = ask(target_of(server.url, key="secret"))
    assert answer.text == "Hm.</think>Answer: B"
    assert (answer.prompt_tokens, answer.generated_tokens, answer.num_attempts) == (11, 5, 1)
    assert server.keys == ["Bearer secret"]
    assert server.received == [
        {
            "path": "/v1/chat/completions",
            "model": "m",
            "messages": [
                {"role": "system", "content": SYSTEM_PROMPT},
                {"role": "user", "content": question_prompt(CASES[0])},
            ],
            "max_tokens": 100,
            "temperature": 0.0,
            "top_p": 1.0,
            "seed": 1,
            "stream": True,
            "stream_options": {"include_usage": True},
            "thinking": {"type": "enabled"},
            "reasoning_effort": "high",
        }
    ]


def test_options_and_further_members_go_along() -> None:
    with chat_server(GOOD) as server:
        ask(target_of(server.url, extra='{"thinking": null, "top_k": 7}'), Asking(9, 0.5, 0.9, 0.1, 3, "none"))
    (body,) = server.received
    assert (body["max_tokens"], body["temperature"], body["top_p"], body["min_p"], body["seed"]) == (
        9,
        0.5,
        0.9,
        0.1,
        3,
    )
    assert body["top_k"] == 7
    assert "thinking" not in body
    assert "reasoning_effort" not in body


@pytest.mark.parametrize(
    "bad", [status(429, retry_after="0"), status(503, "busy"), stream({"content": "An"}, finish=None)]
)
def test_what_may_pass_is_tried_again_from_the_beginning(bad) -> None:  # type: ignore[no-untyped-def]
    with chat_server(bad, bad, GOOD) as server:
        answer = ask(target_of(server.url))
    assert answer.text == "Hm.</think>Answer: B"
    assert answer.num_attempts == 3
    assert answer.trouble
    assert len(server.received) == 3


def test_but_not_for_ever() -> None:
    told = f"answers 500: no memory; {ATTEMPTS} attempts"
    bad = status(500, {"error": {"message": "no memory"}})
    with chat_server(bad) as server, pytest.raises(WhitedwarfError, match=told):
        ask(target_of(server.url))
    assert len(server.received) == ATTEMPTS


@pytest.mark.parametrize(
    ("code", "body", "told", "is_for_all"),
    [
        (400, {"error": {"message": "max_tokens is too large"}}, "answers 400: max_tokens is too large", False),
        (422, "odd", "answers 422: odd", False),
        (302, "", "answers 302: nothing more", False),
        (401, {"error": "no key"}, "answers 401: no key; name a variable with the right key: --api-key-env", True),
        (403, "", "--api-key-env", True),
        (404, {"error": {"message": "no such model"}}, "answers 404: no such model", True),
    ],
)
def test_what_will_not_pass_is_told_at_once(code: int, body: object, told: str, is_for_all: bool) -> None:
    with chat_server(status(code, body)) as server, pytest.raises(WhitedwarfError, match=told) as raised:
        ask(target_of(server.url, key="secret"))
    assert isinstance(raised.value, NoMoreQuestionsError) is is_for_all
    assert "secret" not in str(raised.value)
    assert len(server.received) == 1


def error_event(text: str) -> Step:
    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(f"data: {json.dumps({'error': {'message': text}})}\n\n".encode())

    return answer


def test_a_key_that_a_server_quotes_is_hidden() -> None:
    key = "sk-0123456789"
    refusal = f"Incorrect API key: {key}"
    for answer in (status(401, {"error": {"message": refusal}}), status(400, refusal), error_event(refusal)):
        with chat_server(answer) as server, pytest.raises(WhitedwarfError) as raised:
            ask(target_of(server.url, key=key))
        assert "Incorrect API key: [key]" in str(raised.value)
        assert key not in str(raised.value)
    with serving_models(status(401, refusal)) as server, pytest.raises(WhitedwarfError, match=r"\[key\]"):
        target_of(server.url, key=key, model=None).find_model()


def test_an_address_that_no_request_can_go_to_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--url http://☃\.example"):
        target_of("http://☃.example")


def test_no_terminal_obeys_an_error() -> None:
    with chat_server(status(400, "\x1b[2Jgone")) as server, pytest.raises(WhitedwarfError) as raised:
        ask(target_of(server.url))
    assert str(raised.value).isprintable()


def test_nobody_there_ends_the_exam() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    target = target_of(f"http://127.0.0.1:{port}")
    with pytest.raises(NoMoreQuestionsError, match=r"does not answer: .*; is the server running"):
        ask(target)
    with pytest.raises(WhitedwarfError, match="is the server running"):
        target_of(f"http://127.0.0.1:{port}", model=None).find_model()


def test_a_server_that_does_not_stream_will_do() -> None:
    message = {"content": "<think>Hm.</think>Answer: B"}
    whole = status(200, {"choices": [{"message": message, "finish_reason": "stop"}]}, content_type="application/json")
    with chat_server(whole) as server:
        assert ask(target_of(server.url)).text == "Hm.</think>Answer: B"


def test_an_answer_without_an_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whitedwarf.web.endpoint.streamed_body._LONGEST_ANSWER", 1000)
    for endless in (stream(*[{"content": "x" * 100}] * 50), status(200, " " * 2000)):
        with chat_server(endless) as server, pytest.raises(WhitedwarfError, match="does not end: more than 1000"):
            ask(target_of(server.url))
        assert len(server.received) == 1


@contextmanager
def serving_models(answer) -> Iterator[ChatServer]:  # type: ignore[no-untyped-def]
    with chat_server(GOOD) as server:
        server.models = answer
        yield server


def test_the_only_model_needs_no_name() -> None:
    with chat_server(GOOD) as server:
        target = target_of(server.url, model=None)
        target.find_model()
        ask(target)
    assert target.facts.model == "only"
    assert target.facts.backend == f"{server.url}/v1"
    assert server.received[0]["model"] == "only"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (status(200, {"data": [{"id": "a"}, {"id": "b"}]}), "Give --model NAME; it has a, b"),
        (status(200, {"data": []}), "it names none"),
        (status(200, "hello"), "it names none"),
        (status(200, {"data": [7]}), "it names none"),
        (status(404), "it names none"),
    ],
)
def test_of_several_one_has_to_be_named(answer, told: str) -> None:  # type: ignore[no-untyped-def]
    with serving_models(answer) as server, pytest.raises(UsageError, match=told):
        target_of(server.url, model=None).find_model()


def test_a_wrong_key_is_told_when_the_models_are_asked_for() -> None:
    told = "answers 401: no key; name a variable"
    with serving_models(status(401, {"error": "no key"})) as server, pytest.raises(WhitedwarfError, match=told):
        target_of(server.url, model=None).find_model()


def test_a_whole_exam_several_at_a_time() -> None:
    wrong = stream({"content": "Answer: A"})
    with chat_server(wrong, GOOD) as server:
        exam = Exam(CASES, target_of(server.url), ASKING, parallel=3)
        anyio.run(exam.run)
    assert sorted(seat.phase for seat in exam.seats) == [Phase.FAILED, Phase.PASSED, Phase.PASSED]


def test_stopping_leaves_a_stream_that_hangs() -> None:
    release = threading.Event()
    with chat_server(stream({"content": "An"}, wait=release)) as server:
        exam = Exam(CASES, target_of(server.url), ASKING)

        async def main() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(exam.run)
                with anyio.fail_after(60):
                    while exam.seats[0].answer.text != "An":
                        await anyio.sleep(0.01)
                exam.stop()

        anyio.run(main)
        release.set()
    assert [seat.phase for seat in exam.seats] == [Phase.STOPPED, Phase.PENDING, Phase.PENDING]
    assert exam.seats[0].answer.text == "An"


def test_a_server_is_not_paused_and_skips_nothing() -> None:
    target = target_of("http://127.0.0.1:1")
    target.pause(True)
    assert target.why_skipped(CASES[0]) is None
