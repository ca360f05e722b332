"""The road, without HTTP."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from server.conftest import tokenizer
from server.serving import BODIES, HandEngine, Submitted, finished, says
from whitedwarf.conversation.events import Event as Said
from whitedwarf.engine.request import Event, FinishReason, Prefilled, Token
from whitedwarf.errors import RequestError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.dialects import CHAT, COMPLETIONS, DIALECTS, MESSAGES, RESPONSES, Dialect
from whitedwarf.protocol.failures import ContextLengthExceeded
from whitedwarf.protocol.past import Past
from whitedwarf.protocol.policy import local
from whitedwarf.reply import Reply
from whitedwarf.respond import Road

__all__ = ["tokenizer"]  # a fixture

PATHS = dict(zip([CHAT, RESPONSES, MESSAGES, COMPLETIONS], BODIES, strict=True))
TOOL = {"type": "function", "function": {"name": "sh", "parameters": {"type": "object"}}}


def body(dialect: Dialect, **more: Any) -> bytes:
    return json.dumps({**BODIES[PATHS[dialect]], **more}).encode()


def road(engine: HandEngine, tokenizer: Tokenizer) -> Road:
    return Road(engine, tokenizer, local(ModelVersion.V4))


def run(tokenizer: Tokenizer, dialect: Dialect, asked: bytes, pieces: list[Any], **how: Any) -> Reply:
    engine = HandEngine(play=says(tokenizer, pieces, **how))
    way = road(engine, tokenizer)
    reply = way.start(way.prepare(asked, dialect))
    reply.collect(reply.begin())
    reply.collect(reply.take(events_of(engine.next_request())))
    return reply


def events_of(request: Submitted) -> list[Event]:
    events: list[Event] = []
    while (event := request.generation.next_event(0)) is not None and (not events or event is not events[-1]):
        events.append(event)
    return events


def text_of(dialect: Dialect, told: dict[str, Any]) -> str:
    match dialect.name:
        case "chat":
            return str(told["choices"][0]["message"]["content"])
        case "responses":
            return str(told["output"][-1]["content"][0]["text"])
        case "messages":
            return str(told["content"][-1]["text"])
    return str(told["choices"][0]["text"])


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_tokens_become_the_dialects_answer(dialect: Dialect, tokenizer: Tokenizer) -> None:
    more = {"thinking": {"type": "disabled"}}
    reply = run(tokenizer, dialect, body(dialect, **more), ["Hello ", "🦔漢"])
    assert reply.is_over
    assert text_of(dialect, reply.body()) == "Hello 🦔漢"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_usage_is_what_the_engine_says_was_reused(dialect: Dialect, tokenizer: Tokenizer) -> None:
    reply = run(tokenizer, dialect, body(dialect), ["Hi"], reused=3)
    usage = reply.body()["usage"]
    cached = usage.get("cache_read_input_tokens")
    if cached is None:
        cached = (usage.get("prompt_tokens_details") or usage["input_tokens_details"])["cached_tokens"]
    assert cached == reply.cached_tokens == 3


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES, COMPLETIONS], ids=lambda dialect: dialect.name)
def test_a_stop_string_ends_the_work_too(dialect: Dialect, tokenizer: Tokenizer) -> None:
    name = "stop_sequences" if dialect is MESSAGES else "stop"
    asked = body(dialect, thinking={"type": "disabled"}, **{name: ["END_HERE"]})
    reply = run(tokenizer, dialect, asked, ["abc", "EN", "D_", "HERE", "xyz"])
    assert text_of(dialect, reply.body()) == "abc"
    assert reply.generation.is_cancelled


def test_an_answer_of_more_tokens_than_fit_gets_those_that_do(tokenizer: Tokenizer) -> None:
    way = road(HandEngine(context_length=1000), tokenizer)
    prepared = way.prepare(body(CHAT, max_tokens=5000), CHAT)
    assert prepared.options.max_tokens == 1000 - len(prepared.ids) - 1
    assert way.prepare(body(CHAT, max_tokens=7), CHAT).options.max_tokens == 7
    assert way.prepare(body(CHAT), CHAT).options.max_tokens == prepared.options.max_tokens


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES], ids=lambda dialect: dialect.name)
def test_an_answer_of_no_said_length_gets_the_servers_default(dialect: Dialect, tokenizer: Tokenizer) -> None:
    way = Road(HandEngine(), tokenizer, local(ModelVersion.V4, default_max_tokens=25))
    name = "max_output_tokens" if dialect is RESPONSES else "max_tokens"
    assert way.prepare(body(dialect), dialect).options.max_tokens == 25
    assert way.prepare(body(dialect, **{name: 100}), dialect).options.max_tokens == 100


def test_a_witness_hears_all_and_reads_what_was_made_of_it(tokenizer: Tokenizer) -> None:
    heard: list[Event] = []
    read: list[Said] = []

    class Ear:
        def hears(self, event: Event) -> None:
            heard.append(event)

        def reads(self, said: Sequence[Said]) -> None:
            read.extend(said)

        def beside(self, choice: int) -> "Ear":
            return self

    engine = HandEngine(play=says(tokenizer, ["Hello"], reused=3))
    way = road(engine, tokenizer)
    reply = way.start(way.prepare(body(CHAT), CHAT))
    reply.watched_by(Ear())
    events = events_of(engine.next_request())
    reply.take(events)
    assert heard == events
    assert [type(said).__name__ for said in read] == ["TextDelta", "Finished"]


def test_a_prompt_that_leaves_room_for_no_token_is_refused(tokenizer: Tokenizer) -> None:
    length = road(HandEngine(), tokenizer).count_tokens(body(CHAT), CHAT)
    road(HandEngine(context_length=length + 2), tokenizer).prepare(body(CHAT), CHAT)
    for context_length in (length + 1, length, length - 1):
        with pytest.raises(ContextLengthExceeded, match="maximum context length"):
            road(HandEngine(context_length=context_length), tokenizer).prepare(body(CHAT), CHAT)


def test_sampling_and_ends_reach_the_engine(tokenizer: Tokenizer) -> None:
    asked = body(CHAT, temperature=0.5, top_p=0.25, top_k=7, min_p=0.125, seed=11, logprobs=True, top_logprobs=3)
    options = road(HandEngine(), tokenizer).prepare(asked, CHAT).options
    sampling = options.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.25, 7, 0.125)
    assert (sampling.seed, options.logprobs) == (11, 3)
    assert options.stop_ids == {tokenizer.special_id(SpecialToken.EOS)}


def test_checkpoints_are_where_turns_begin(tokenizer: Tokenizer) -> None:
    turns = [{"role": role, "content": f"words {n}"} for n in range(20) for role in ("user", "assistant")]
    asked = body(CHAT, messages=[{"role": "system", "content": "Be."}, *turns, {"role": "user", "content": "Go on."}])
    prepared = road(HandEngine(context_length=5000), tokenizer).prepare(asked, CHAT)
    marks = {tokenizer.special_id(token) for token in (SpecialToken.USER, SpecialToken.ASSISTANT)}
    places = [place for place, token in enumerate(prepared.ids) if token in marks]
    assert prepared.options.checkpoints == (places[0], *places[-7:])


def test_a_call_that_was_cut_off_is_not_in_a_whole_answer(tokenizer: Tokenizer) -> None:
    dsml = SpecialToken.DSML
    call = [
        "<",
        dsml,
        "tool_calls>\n<",
        dsml,
        'invoke name="sh">\n<',
        dsml,
        'parameter name="cmd" string="true">rm -rf',
    ]
    asked = body(CHAT, tools=[TOOL])
    reply = run(tokenizer, CHAT, asked, call, reason=FinishReason.LENGTH)
    choice = reply.body()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]


def test_a_form_that_cannot_be_enforced_is_refused_before_anything_is_queued(tokenizer: Tokenizer) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "f", "schema": {"not": {}}}}
    engine = HandEngine()
    with pytest.raises(RequestError, match='"not"'):
        road(engine, tokenizer).prepare(body(CHAT, response_format=form), CHAT)
    assert engine.submitted.empty()


def test_a_form_that_is_enforced_needs_no_warning(tokenizer: Tokenizer) -> None:
    asked = body(CHAT, response_format={"type": "json_object"}, unheard_of=1)
    prepared = road(HandEngine(), tokenizer).prepare(asked, CHAT)
    assert prepared.form is not None
    assert prepared.warnings == ()
    assert prepared.converted.unknown_fields == ("unheard_of",)


def test_beside_tools_a_form_is_enforced_too(tokenizer: Tokenizer) -> None:
    asked = body(CHAT, response_format={"type": "json_object"}, tools=[TOOL])
    prepared = road(HandEngine(), tokenizer).prepare(asked, CHAT)
    assert prepared.form is not None
    assert prepared.offered is None
    assert prepared.warnings == ()


def test_calls_are_held_to_strict_tools_and_to_one_where_one_is_asked_for(tokenizer: Tokenizer) -> None:
    strict = {**TOOL, "function": {**TOOL["function"], "strict": True}}
    ways: list[tuple[dict[str, Any], bool]] = [
        ({"tools": [TOOL]}, False),
        ({"tools": [TOOL], "parallel_tool_calls": True}, False),
        ({"tools": [TOOL], "parallel_tool_calls": False}, True),
        ({"tools": [strict]}, True),
        ({"tools": [strict], "tool_choice": "none"}, False),
        ({"parallel_tool_calls": False}, False),
    ]
    for members, is_held in ways:
        prepared = road(HandEngine(), tokenizer).prepare(body(CHAT, **members), CHAT)
        assert (prepared.form, prepared.offered is not None) == (None, is_held), members


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_an_answer_that_cannot_be_remembered_ends_all_the_same(
    dialect: Dialect, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Past, "remember", fail)
    reply = run(tokenizer, dialect, body(dialect, thinking={"type": "disabled"}), ["Hi"])
    assert text_of(dialect, reply.body()) == "Hi"
    assert reply.failure is None
    assert "answer_not_remembered" in caplog.messages


def test_an_answer_that_has_ended_says_nothing_more(tokenizer: Tokenizer) -> None:
    reply = run(tokenizer, MESSAGES, body(MESSAGES), ["Hi"])
    assert reply.take([Token(5), finished(), Prefilled(1, 1)]) == reply.keepalive() == []
    assert reply.fail(RequestError("late")) == []
    assert reply.failure is None
