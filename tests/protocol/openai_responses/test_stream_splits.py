"""However an output is cut into pieces, the same answer: the body, and the deltas of each item joined."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from prompt.streams import cut
from prompt.test_parse_streams import OPTIONS, SIZES
from protocol.openai_responses.parsed_answers import StreamEvents, official_reply, run
from protocol.openai_responses.random_answers import PARTS, REQUESTS
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.converted import ResponsesReply

REPLIES = st.builds(
    lambda request, is_official, summarizes: official_reply(request, is_official=is_official, summarizes=summarizes),
    REQUESTS,
    st.booleans(),
    st.booleans(),
)
ENDS = st.sampled_from([[], ["stop"], ["length"], ["content_filter"]])


def summed(pushes: list[StreamEvents], body: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Deltas by item; an item without text is the same as one with empty text. Usage counts pieces of text."""
    deltas: dict[str, str] = {}
    for event in (event for push in pushes for event in push):
        if event["type"].endswith(".delta"):
            deltas[event["item_id"]] = deltas.get(event["item_id"], "") + event["delta"]
    shown = {key: value for key, value in body.items() if key != "usage"}
    return {item: text for item, text in deltas.items() if text}, shown


def check_deltas(pushes: list[StreamEvents], body: dict[str, Any]) -> None:
    deltas, _ = summed(pushes, body)
    for item in body["output"]:
        parts = item.get("content") or item.get("summary") or [{}]
        told = parts[0].get("text", item.get("arguments", item.get("input", "")))
        if item["type"] != "tool_search_call":
            assert deltas.get(item["id"], "") == told


@settings(max_examples=150)
@given(PARTS.map("".join), SIZES, OPTIONS, REPLIES, ENDS)
def test_text_cut_anywhere_gives_the_same_answer(
    text: str, sizes: list[int], options: ParseOptions, reply: ResponsesReply, end: list[str]
) -> None:
    finish = [["finish", *end]] if end else []
    whole = run([["text", text, 1], *finish], options, reply)
    pieces = run([["text", piece, 1] for piece in cut(text, sizes) if piece] + finish, options, reply)
    assert summed(*pieces) == summed(*whole)
    check_deltas(*pieces)


@settings(max_examples=150)
@given(PARTS.map("".join), SIZES, OPTIONS, REPLIES, ENDS)
def test_ids_cut_anywhere_give_the_same_answer(
    nano: Tokenizer, text: str, sizes: list[int], options: ParseOptions, reply: ResponsesReply, end: list[str]
) -> None:
    ids = nano.encode_rendered(text)
    finish = [["finish", *end]] if end else []
    whole = run([["tokens", ids], *finish], options, reply, nano)
    groups = []
    for size in [*sizes, len(ids)]:
        groups.append(ids[:size])
        ids = ids[size:]
    pieces = run([["tokens", group] for group in groups if group] + finish, options, reply, nano)
    assert summed(*pieces) == summed(*whole)
    check_deltas(*pieces)
