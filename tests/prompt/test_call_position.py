"""Where the next token of an answer stands, by hand, whatever the cut, and in step with the parser."""

import json
import random
from collections.abc import Iterable, Sequence
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.conversation.events import Event, ToolCallFinished
from whitedwarf.prompt.call_position import CallPosition
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.stretch import Position
from whitedwarf.prompt.tokenizer import Tokenizer

ANSWER = ParseOptions()
CONTINUED = ParseOptions(start=ParseStart.CONTENT_CONTINUED)
THINKING = ParseOptions(start=ParseStart.REASONING)
IN_CALLS = ParseOptions(starts_in_tool_calls=True)

CONTROLS = {  # one character each in the texts here
    "▮": SpecialToken.DSML,
    "▶": SpecialToken.THINK_OPEN,
    "◀": SpecialToken.THINK_CLOSE,
    "■": SpecialToken.EOS,
    "●": SpecialToken.USER,
}
LETTERS = {
    Position.THINKING: "t",
    Position.OUTSIDE: ".",
    Position.STRUCTURE: "#",
    Position.STRING_VALUE: "v",
    Position.JSON_STRUCTURE: "j",
    Position.JSON_STRING: "s",
    Position.COMPLETE: "!",
}
Runs = Sequence[tuple[str, str]]  # what comes, and the letter of where each of its characters leads


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = []
    plain = ""
    for character in text:
        if character in CONTROLS:
            ids += [*tokenizer.encode(plain), tokenizer.special_id(CONTROLS[character])]
            plain = ""
        else:
            plain += character
    return ids + tokenizer.encode(plain)


def letters(tokenizer: Tokenizer, pieces: Iterable[str], options: ParseOptions) -> str:
    """The position after each piece."""
    tracker = CallPosition(tokenizer, options)
    found = ""
    for piece in pieces:
        for token in ids_of(tokenizer, piece):
            tracker.accept(token)
        found += LETTERS[tracker.position]
    return found


def check(tokenizer: Tokenizer, runs: Runs, options: ParseOptions) -> None:
    found = letters(tokenizer, "".join(text for text, _ in runs), options)
    ends = list(accumulate(len(text) for text, _ in runs))
    led = [(text, found[end - len(text) : end]) for (text, _), end in zip(runs, ends, strict=True)]
    assert led == [(text, letter * len(text)) for text, letter in runs]


def values(prefix: str, blank: str = "") -> Runs:
    """A call with a value of each kind."""
    return [
        (f'<{prefix}{blank}invoke name="f">\n', "#"),
        (f'<{prefix}{blank}parameter name="path" string="true"', "#"),
        (">a < b\nc<", "v"),
        (f"/{prefix}{blank}parameter>\n", "#"),
        (f'<{prefix}{blank}parameter name="n" string="false"', "#"),
        (">{", "j"),
        (r'"a\"', "s"),
        ('": [1, ', "j"),
        ('"}', "s"),
        ('"]}<', "j"),
        (f"/{prefix}{blank}parameter>\n</{prefix}{blank}invoke>\n", "#"),
    ]


def closed(runs: Runs) -> Runs:
    """In a block of the usual kind, and then some more."""
    opened = [("▮tool_calls>\n", "#")]
    return [("Well.\n\n<", "."), *opened, *runs, ("</▮tool_calls", "#"), (">\n<▮tool_calls>■", "!")]


@pytest.mark.parametrize("options", [ANSWER, CONTINUED], ids=["new", "continued"])
@pytest.mark.parametrize(("blank", "block"), [("", "tool_calls"), (" ", "calls")], ids=["v4", "v41"])
def test_a_block_of_control_tokens_ends_the_answer(
    nano: Tokenizer, blank: str, block: str, options: ParseOptions
) -> None:
    before, after = [("Well.\n\n<", "."), (f"▮{blank}{block}>\n", "#")], [(f"</▮{blank}{block}", "#"), (">x", "!")]
    check(nano, [*before, *values("▮", blank), *after], options)


@pytest.mark.parametrize(
    ("prefix", "blank", "block"),
    [("DSML｜", "", "tool_calls"), ("DSML｜", " ", "calls"), ("｜DSML｜", "", "tool_calls"), ("", "", "tool_calls")],
)
def test_a_block_of_ordinary_text_is_a_block_but_ends_nothing(
    nano: Tokenizer, prefix: str, blank: str, block: str
) -> None:
    before: Runs = [(f"Well.\n\n<{prefix}{blank}{block}", "."), (">\n", "#")]
    after: Runs = [(f"</{prefix}{blank}{block}", "#"), ("> ok ", "."), *closed(values("▮"))]
    check(nano, [*before, *values(prefix, blank), *after], ANSWER)


def test_a_plain_tag_in_prose_is_left_again(nano: Tokenizer) -> None:
    runs = [("Write <tool_calls", "."), ("> ", "#"), ("to call, then <invoke name=...> and so on.", ".")]
    check(nano, runs, ANSWER)
    check(nano, [*runs, *closed(values("▮"))], ANSWER)


def test_text_in_an_unclosed_plain_block_hides_no_call(nano: Tokenizer) -> None:
    plain: Runs = [("<tool_calls", "."), ('><invoke name="f"><parameter name="a" string="true"', "#"), (">b\n\n<", "v")]
    check(nano, [*plain, *closed(values("▮"))[1:]], ANSWER)


def test_nothing_in_a_thought_is_a_call(nano: Tokenizer) -> None:
    thought = "Well <▮tool_calls>\n" + "".join(text for text, _ in values("▮")) + "</▮tool_calls>\n"
    check(nano, [(thought, "t"), ("◀\n\n<", "."), *closed(values("▮"))[1:]], THINKING)


@pytest.mark.parametrize(("first", "letter"), [("", "t"), ("\n ", "t"), ("x", "."), ("\nx", ".")])
def test_only_an_answer_that_has_not_begun_can_turn_into_a_thought(nano: Tokenizer, first: str, letter: str) -> None:
    check(nano, [(first, "."), (f"▶{'y' * 99}", letter), ("◀x", ".")], ANSWER)
    check(nano, [(f"{first}▶y◀x", ".")], CONTINUED)


def test_a_thought_that_nobody_asked_for_holds_no_call(nano: Tokenizer) -> None:
    check(nano, [("▶<▮tool_calls>", "t"), ("◀<", "."), *closed(values("▮"))[1:]], ANSWER)


def test_the_prompt_may_have_opened_the_block(nano: Tokenizer) -> None:
    assert CallPosition(nano, IN_CALLS).position is Position.STRUCTURE
    check(nano, [*values("▮"), ("</▮tool_calls", "#"), (">", "!")], IN_CALLS)


def test_a_closing_tag_that_turns_out_to_be_none_is_value_again(nano: Tokenizer) -> None:
    head: Runs = [("▮tool_calls><▮invoke name='f'><▮parameter name='a' string='true'", "#")]
    check(nano, [*head, ("><", "v"), ("/", "#"), ("div><", "v"), ("/▮", "#")], ANSWER)
    check(nano, [*head, ("><", "v"), ("▮", "#"), ("x<", "v"), ("▮ parameter name", "#"), ("!", "v")], ANSWER)
    plain: Runs = [("<tool_calls", "."), ("><invoke name='f'><parameter name='a' string='true'", "#")]
    check(nano, [*plain, ("><", "v"), ("/", "#"), ("div><", "v"), ("/param", "#"), ("s>", "v")], ANSWER)


def test_json_may_stand_for_the_parameters(nano: Tokenizer) -> None:
    runs: Runs = [("<", "."), ('▮tool_calls>\n<▮invoke name="f">\n', "#"), ("{", "j"), ('"a": 1'[:2], "s")]
    runs = [*runs, ('": 1}\n<', "j"), ("/▮invoke>\n</▮tool_calls", "#"), (">", "!")]
    check(nano, runs, ANSWER)


@pytest.mark.parametrize(
    "text",
    [
        "<▮tool_calls></▮tool_calls>",
        "<▮tool_calls>\n</▮tool_calls>",
        "The token ▮ is no call> ",
        "</▮tool_calls>",
        "<▮ is what every one of their tags begins with, so it stands behind a bracket>",
        "<tool_calls></tool_calls>",
        "◀■●",
    ],
)
def test_what_holds_no_call_is_not_the_end(nano: Tokenizer, text: str) -> None:
    assert letters(nano, [text], CONTINUED) == "."
    check(nano, [*closed(values("▮"))], CONTINUED)


# whatever the cut

SYNTAX = [
    *("<▮", "</▮", "▮", "tool_calls>", " calls>", "invoke>", "parameter>", "<", "</", ">", '">', "{", '"', "\\", "}"),
    *('invoke name="f">', ' parameter name="p" string="true">', 'parameter name="p" string="false">', "name="),
    *("<tool_calls>", "</tool_calls>", '<invoke name="f">', '<parameter name="p" string="true">', "</parameter>"),
    *("<DSML｜tool_calls>", "<｜DSML｜ calls>", "</invoke>", "▶", "◀", "■", "●", "\n", " ", "a", "é", "日本", "x" * 40),
    '<▮tool_calls>\n<▮invoke name="f">\n',
    '<▮parameter name="p" string="true">v</▮parameter>\n',
    "</▮invoke>\n</▮tool_calls>",
]
TEXTS = st.lists(st.sampled_from(SYNTAX), max_size=20).map("".join)
STARTS = st.builds(
    ParseOptions,
    start=st.sampled_from(ParseStart),
    starts_in_tool_calls=st.booleans(),
)


@pytest.fixture(scope="module")
def byte_ids(nano: Tokenizer) -> dict[int, int]:
    """The token of each byte."""
    ids = nano.vocabulary.text_ids.values()
    return {data[0]: one for one in ids if len(data := nano.token_bytes(one)) == 1}


@settings(max_examples=100, deadline=None)
@given(TEXTS, STARTS, st.randoms(use_true_random=False))
def test_any_cut_into_tokens_gives_the_same_positions(
    nano: Tokenizer, byte_ids: dict[int, int], text: str, options: ParseOptions, chance: random.Random
) -> None:
    by_byte = CallPosition(nano, options)
    after = [by_byte.position]
    for token in ids_of(nano, text):
        is_control = token in nano.vocabulary.special_ids.values()
        ones = [token] if is_control else [byte_ids[byte] for byte in nano.token_bytes(token)]
        after += [by_byte.accept(one) for one in ones]
    cuts = sorted(chance.sample(range(len(text) + 1), k=min(len(text), 5)))
    pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    tracker, at = CallPosition(nano, options), 0
    for token in [token for piece in pieces for token in ids_of(nano, piece)]:
        at += 1 if token in nano.vocabulary.special_ids.values() else len(nano.token_bytes(token))
        assert tracker.accept(token) is after[at]
    assert at == len(after) - 1


# in step with the parser


def in_step(tokenizer: Tokenizer, ids: Iterable[int], options: ParseOptions) -> None:
    """Feed both; where the tracker calls a block complete the parser has a call, and tells nothing more."""
    tracker, parser = CallPosition(tokenizer, options), OutputParser(options, tokenizer)
    events: list[Event] = []
    for token in ids:
        told = parser.feed_ids([token])
        assert not told or tracker.position is not Position.COMPLETE
        events += told
        if tracker.accept(token) is Position.COMPLETE:
            assert any(isinstance(event, ToolCallFinished) for event in events)


@settings(max_examples=150, deadline=None)
@given(TEXTS, STARTS)
def test_a_complete_block_has_a_call_for_the_parser_too(nano: Tokenizer, text: str, options: ParseOptions) -> None:
    in_step(nano, ids_of(nano, text), options)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 4200), max_size=100), STARTS)
def test_no_stream_of_ids_raises(nano: Tokenizer, ids: list[int], options: ParseOptions) -> None:
    in_step(nano, ids, options)


ARGUMENT = ["<", "/", "</", "a", "\n", '"', "\\", "é", "日本", "</parameter>", "<｜DSML｜", "</｜DSML｜parameter>", "{"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from(ARGUMENT)).map("".join), min_size=1, max_size=3))
def test_every_byte_of_a_string_argument_stands_in_a_value(nano: Tokenizer, arguments: list[str]) -> None:
    tracker, parser = CallPosition(nano, IN_CALLS), OutputParser(IN_CALLS, nano)
    events: list[Event] = []

    def feed(text: str) -> None:
        for token in ids_of(nano, text):
            tracker.accept(token)
            events.extend(parser.feed_ids([token]))

    for text in arguments:
        feed('<▮invoke name="f">\n<▮parameter name="a" string="true">')
        for at, character in enumerate(text):
            is_closing = text[:at].endswith("</")
            assert tracker.position is (Position.STRUCTURE if is_closing else Position.STRING_VALUE)
            feed(character)
        feed("</▮parameter>\n</▮invoke>\n")
    calls = [event.arguments for event in events if isinstance(event, ToolCallFinished)]
    assert calls == [json.dumps({"a": text}, ensure_ascii=False) for text in arguments]
