"""Several choices of one request on the road, without HTTP."""

from typing import Any

import pytest

from server.conftest import tokenizer
from server.serving import HandEngine, Submitted, finished, says
from test_respond import body, events_of, road
from whitedwarf.choices import Choices
from whitedwarf.engine.chorus import Voiced
from whitedwarf.engine.request import FinishReason, Prefilled, Token
from whitedwarf.errors import BackendError, EngineBusyError
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.dialects import CHAT, COMPLETIONS, Dialect

__all__ = ["tokenizer"]  # a fixture


def started(engine: HandEngine, tokenizer: Tokenizer, dialect: Dialect = CHAT, **more: Any) -> Choices:
    way = road(engine, tokenizer)
    choices = way.start(way.prepare(body(dialect, n=3, **more), dialect))
    assert isinstance(choices, Choices)
    return choices


def requests_of(engine: HandEngine) -> list[Submitted]:
    return [engine.next_request() for _ in range(3)]


@pytest.mark.parametrize("dialect", [CHAT, COMPLETIONS], ids=lambda dialect: dialect.name)
def test_choice_i_is_drawn_with_the_seed_and_i(dialect: Dialect, tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    started(engine, tokenizer, dialect, seed=41)
    assert [request.options.sampling.seed for request in requests_of(engine)] == [41, 42, 43]
    started(engine, tokenizer, dialect)
    assert [request.options.sampling.seed for request in requests_of(engine)] == [None] * 3


def test_an_error_in_one_ends_all_with_one_error(tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    choices = started(engine, tokenizer)
    requests = requests_of(engine)
    total = len(requests[0].ids)
    for request in requests:
        request.put(Prefilled(0, total), Prefilled(total, total), Token(tokenizer.encode("a")[0]))
    requests[1].put(finished(FinishReason.ERROR, error=BackendError("the card is gone")))
    requests[2].put(Token(tokenizer.encode("b")[0]), finished())
    choices.begin()
    events = list(iter(choices.generation.next_event, None))
    told = choices.take(events)
    assert [chunk for chunk in told if "error" in chunk] == told[-1:]
    assert "the card is gone" in told[-1]["error"]["message"]
    assert choices.is_over
    assert choices.failure is not None
    assert all(request.generation.is_cancelled for request in requests)
    assert choices.take([Voiced(0, Token(5))]) == choices.fail(BackendError("again")) == choices.keepalive()[1:] == []


def test_a_fault_of_the_server_ends_all_with_one_error(tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    choices = started(engine, tokenizer)
    told = choices.fail(BackendError("a bug"))
    assert [list(chunk) for chunk in told] == [["error"]]
    assert all(request.generation.is_cancelled for request in requests_of(engine))


def test_where_not_all_find_a_place_none_is_queued(tokenizer: Tokenizer) -> None:
    engine = HandEngine()

    def fill(submitted: Submitted) -> None:
        if engine.submitted.qsize() == 1:
            engine.error = EngineBusyError("full")

    engine.play = fill
    with pytest.raises(EngineBusyError, match="each of the 3 answers takes a place in the queue"):
        started(engine, tokenizer)
    assert [engine.next_request().generation.is_cancelled for _ in range(2)] == [True, True]


def test_whoever_leaves_ends_all(tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    choices = started(engine, tokenizer)
    choices.leave()
    assert all(request.generation.is_cancelled for request in requests_of(engine))


def test_a_stop_string_ends_its_own_choice_alone(tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    choices = started(engine, tokenizer, stop=["END"], thinking={"type": "disabled"})
    requests = requests_of(engine)
    says(tokenizer, ["ab", "END", "cd"])(requests[1])
    choices.collect(choices.begin())
    choices.collect(choices.take(iter(choices.generation.next_event, None)))
    assert [request.generation.is_cancelled for request in requests] == [False, True, False]
    assert not choices.is_over
    for request in (requests[0], requests[2]):
        says(tokenizer, ["ef"], FinishReason.LENGTH)(request)
    choices.collect(choices.take(iter(choices.generation.next_event, None)))
    told = choices.body()["choices"]
    assert [(one["index"], one["message"]["content"], one["finish_reason"]) for one in told] == [
        (0, "ef", "length"),
        (1, "ab", "stop"),
        (2, "ef", "length"),
    ]


def test_one_choice_is_told_as_it_always_was(tokenizer: Tokenizer) -> None:
    engine = HandEngine(play=says(tokenizer, ["Hello"]))
    way = road(engine, tokenizer)
    one = way.start(way.prepare(body(CHAT, n=1), CHAT))
    assert not isinstance(one, Choices)
    one.collect(one.begin())
    one.collect(one.take(events_of(engine.next_request())))
    assert one.body()["choices"][0]["index"] == 0
