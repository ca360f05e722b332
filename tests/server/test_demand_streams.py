"""What streams show and when, over a real server, in each dialect (demand.md P17-P20)."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from fakes.scripted_server import Served, says, serving
from protocol.scripted_dialects import DIALECTS, Script, Shown
from server.demand_answers import PATHS, answer, history, in_each_dialect, line, shown
from whitedwarf.server.stream import KEEPALIVE_S

PREFILL_S = 11.0
LATE_S = 4.0
"""The machines are shared."""


@pytest.mark.slow
def test_the_server_as_it_is_set_up_is_never_silent_for_5_s() -> None:
    """P17: a prompt that is read for longer than two of the clock's rounds, by a client of each dialect at once."""
    assert KEEPALIVE_S < 5
    with serving(says("Done.", prefill_s=PREFILL_S)) as served, ThreadPoolExecutor(len(DIALECTS)) as pool:
        told = dict(zip(DIALECTS, pool.map(lambda dialect: timed_lines(served, dialect), DIALECTS), strict=True))
    for lines in told.values():
        moments = [at_s for at_s, _ in lines]
        assert moments[0] < 1 + LATE_S
        assert max(later - earlier for earlier, later in pairwise(moments)) < 5 + LATE_S
        early = [text for at_s, text in lines if at_s < PREFILL_S]
        assert "Done" not in "".join(early)
        assert "Done" in "".join(text for _, text in lines)
    messages = [text for _, text in told["messages"] if text.startswith("event: ")]
    assert messages[0] == "event: message_start"
    assert messages.count("event: ping") >= 2
    responses = [text for _, text in told["responses"] if text.startswith("event: ")]
    assert responses[:2] == ["event: response.created", "event: response.in_progress"]


def timed_lines(served: Served, dialect: str) -> list[tuple[float, str]]:
    """When each line came, after the headers."""
    body = {**Script(dialect, tools=()).body(), "stream": True}
    with httpx2.Client(base_url=served.url, timeout=60) as client:  # which takes a while to be made
        started_s = time.monotonic()
        with client.stream("POST", PATHS[dialect], json=body) as told:
            begun = [(time.monotonic() - started_s, "")]
            return begun + [(time.monotonic() - started_s, text) for text in told.iter_lines() if text]


STOP_KEY = {"chat": "stop", "messages": "stop_sequences", "responses": "stop"}
PIECES = ["abc", "EN", "D_", "HERE", "xyz"]


def stopping(dialect: str, *stops: str) -> Script:
    return history(dialect, ("user", "Go on."), **{STOP_KEY[dialect]: list(stops)})


@in_each_dialect
@pytest.mark.parametrize("stops", [["END_HERE"], ["one", "two", "three", "four", "END_HERE"]], ids=len)
def test_a_stop_string_in_pieces_is_never_shown(dialect: str, stops: list[str]) -> None:
    """P19: streamed text is `abc`; Messages names the string."""
    named = "END_HERE" if dialect == "messages" else None
    expected = Shown(content="abc", stop_string=named)
    assert shown(stopping(dialect, *stops), line(PIECES), line("".join(PIECES)), line(["abcEND_HERExyz"])) == expected


@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_a_stop_string_need_not_be_in_a_list(dialect: str) -> None:
    """P19: `stop` as a string."""
    assert shown(history(dialect, ("user", "Go on."), stop="END_HERE"), line(PIECES)) == Shown(content="abc")


@in_each_dialect
def test_what_only_began_like_a_stop_string_is_shown(dialect: str) -> None:
    """P19: the text that was held is released in full, in the middle and at the end."""
    there = line(["abc", "EN", "D_", "THERE", "xyz"])
    assert shown(stopping(dialect, "END_HERE"), there) == Shown(content="abcEND_THERExyz")
    assert shown(stopping(dialect, "END_HERE"), line(["abc", "EN", "D_", "HER"])) == Shown(content="abcEND_HER")


def in_bytes(*digits: str) -> list[dict[str, str]]:
    return [{"bytes": one} for one in digits]


CHARACTERS: dict[str, tuple[list[Any], str]] = {
    "split": (["ok ", *in_bytes("f09f", "a6", "94", "e6", "bca2")], "ok 🦔漢"),
    "whole": (["ok ", *in_bytes("f09fa694", "e6bca2")], "ok 🦔漢"),
    "cut at the end": (["ok ", *in_bytes("f09f")], "ok \ufffd"),
    "invalid on the way": (["a", *in_bytes("ff"), "b", *in_bytes("f0"), "c"], "a\ufffdb\ufffdc"),
}


@in_each_dialect
@pytest.mark.parametrize("case", CHARACTERS)
def test_characters_split_over_tokens_arrive_whole(dialect: str, case: str) -> None:
    """P20: streamed and whole; what is no character is one U+FFFD and holds up nothing."""
    pieces, expected = CHARACTERS[case]
    assert shown(history(dialect, ("user", "Go on.")), {"pieces": pieces}) == Shown(content=expected)


@in_each_dialect
def test_no_piece_of_a_stream_is_half_a_character(dialect: str) -> None:
    """P20: every event is whole UTF-8 by itself (`events_of` decodes strictly), and none has U+FFFD."""
    told = answer(history(dialect, ("user", "Go on.")), {"pieces": CHARACTERS["split"][0], "delay_ms": 5})
    assert "\ufffd" not in str(told.events)
