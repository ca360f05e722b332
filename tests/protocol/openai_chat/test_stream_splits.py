"""Whatever pieces an output comes in, the same answer is told."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings

from prompt.streams import cut
from prompt.test_parse_streams import OPTIONS, SIZES, TEXTS
from protocol.answer_runs import chat_body, chat_reply, chat_stream, run
from protocol.event_sequences import chat_deltas
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions
from whitedwarf.prompt.tokenizer import Tokenizer


def told(chunks: Sequence[Any], options: ParseOptions, tokenizer: Tokenizer | None = None) -> tuple[Any, Any]:
    """The joined deltas and the body, without the counts: a stop string ends the count with the piece it is in."""
    chunks = [["ready", {}], *chunks, ["finish", "stop"]]
    pushed = run(chunks, options, tokenizer, chat_stream(chat_reply(options)))
    return chat_deltas(pushed.told), chat_body(pushed.told) | {"usage": None}


@settings(max_examples=300)
@given(TEXTS, SIZES, OPTIONS)
def test_text_cut_anywhere_is_told_alike(text: str, sizes: list[int], options: ParseOptions) -> None:
    whole = told([["text", text, 0]], options)
    assert told([["text", piece, 0] for piece in cut(text, sizes)], options) == whole


@settings(max_examples=200)
@given(TEXTS, SIZES, OPTIONS)
def test_ids_grouped_anyhow_are_told_alike(nano: Tokenizer, text: str, sizes: list[int], options: ParseOptions) -> None:
    ids = nano.encode_rendered(text)
    if options.mode is ParseMode.SALVAGE:  # officially a whole group is lost when it ends in half a character
        ids += nano.encode("é🦔")[:1]
    groups, rest = [], ids
    for size in sizes:
        groups.append(["tokens", rest[:size]])
        rest = rest[size:]
    single = told([["tokens", [token]] for token in ids], options, nano)
    assert told([*groups, ["tokens", rest]], options, nano) == single
