"""Any answer, cut anywhere: the same events add up; malformed calls never raise; well-formed ones never leak."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from prompt.streams import D, add_up, block, call, cut, parameter, parse_ids, parse_text
from whitedwarf.conversation.events import BackendReason, Event, FinishReason
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

WORDS = [
    *("\n", "\n\n", "</think>", "<", "</", D, f"<{D}", f"</{D}", f"<{D} calls>", f"</{D} calls>", f"</{D}tool_calls>"),
    *('invoke name="f">', 'parameter name="k" string="true">', 'parameter name="k" string="false">', "parameter name="),
    *(' string="true">', '"', " ", "a", "é🦔", "{", "[", "```json\n", "```\n", "\n```", "END", "EN", "D_", "\\", "\t"),
    *(
        "th",
        "ink>",
        "<｜DS",
        "ML｜",
        "}",
        ">",
        "'",
        "true",
        "12",
        f"</{D}parameter>\n",
        f"</{D}invoke>\n",
        "invoke name=",
    ),
    *(call("g", parameter("p", 'v"')), block(call("h", parameter("n", "[1]", is_string=False))), f"<{D}toolcalls>"),
]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=16).map("".join)
SIZES = st.lists(st.integers(0, 9), max_size=40)
STOPS = st.lists(st.sampled_from(["END", "END_", "D_E", "\n", "\n\n", "aa", "<", "</think>", '"}']), max_size=2).map(
    tuple
)
OPTIONS = st.builds(
    ParseOptions,
    mode=st.sampled_from(ParseMode),
    start=st.sampled_from(ParseStart),
    parse_tool_calls=st.booleans(),
    starts_in_tool_calls=st.booleans(),
    stop_strings=STOPS,
)


@settings(max_examples=1000)
@given(TEXTS, SIZES, OPTIONS, st.sampled_from(BackendReason))
def test_text_cut_anywhere_adds_up_to_the_same(
    text: str, sizes: list[int], options: ParseOptions, reason: BackendReason
) -> None:
    whole = parse_text([text], options, reason)
    assert parse_text(cut(text, sizes), options, reason) == whole
    assert parse_text(text, options, reason) == (whole if text else parse_text([], options, reason))


@settings(max_examples=300)
@given(TEXTS, SIZES, STOPS)
def test_a_json_answer_cut_anywhere_adds_up_to_the_same_in_salvage(
    text: str, sizes: list[int], stops: tuple[str, ...]
) -> None:
    options = ParseOptions(parse_json_output=True, stop_strings=stops)
    assert parse_text(cut(text, sizes), options) == parse_text([text], options)


@settings(max_examples=300)
@given(TEXTS, SIZES, OPTIONS)
def test_ids_grouped_anyhow_add_up_to_the_same(
    nano: Tokenizer, text: str, sizes: list[int], options: ParseOptions
) -> None:
    ids = nano.encode_rendered(text)
    if options.mode is ParseMode.SALVAGE:  # officially a whole group is lost when it ends in half a character
        ids += nano.encode("é🦔")[:1]
    groups, rest = [], ids
    for size in sizes:
        groups.append(rest[:size])
        rest = rest[size:]
    assert parse_ids([*groups, rest], options, nano) == parse_ids([[i] for i in ids], options, nano)


@settings(max_examples=500)
@given(st.text("ENDab_\n", max_size=20), STOPS, SIZES, st.sampled_from(ParseMode))
def test_text_ends_before_the_stop_string_that_is_complete_first(
    text: str, stops: tuple[str, ...], sizes: list[int], mode: ParseMode
) -> None:
    options = ParseOptions(mode=mode, start=ParseStart.CONTENT_CONTINUED, stop_strings=stops)
    ends = [(text.index(stop) + len(stop), i, stop) for i, stop in enumerate(stops) if stop in text]
    answer = parse_text(cut(text, sizes), options)
    if not ends:
        assert (answer.text, answer.stop_string) == (text, None)
    else:
        end, _, stop = min(ends)
        assert (answer.text, answer.stop_string) == (text[: end - len(stop)], stop)


@settings(max_examples=1000)
@given(st.text(max_size=60) | TEXTS, OPTIONS, st.sampled_from(BackendReason))
def test_whatever_the_model_writes_finished_calls_are_json_objects(
    text: str, options: ParseOptions, reason: BackendReason
) -> None:
    answer = parse_text([text], options, reason)
    if options.mode is ParseMode.SALVAGE:
        assert all(isinstance(json.loads(arguments), dict) for _, arguments in answer.finished)


WHOLE = [word for word in WORDS if word not in ("<｜DS", "ML｜", "th", "ink>", "<", "</")]


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(WHOLE), st.booleans()), max_size=16), OPTIONS)
def test_control_tokens_in_ids_and_spelt_in_text_add_up_to_the_same(
    nano: Tokenizer, parts: list[tuple[str, bool]], options: ParseOptions
) -> None:
    options = replace(options, stop_strings=())  # these may be spelt, but are never tokens
    parser, events = OutputParser(options, nano), list[Event]()
    for part, is_text in parts:
        if not parser.is_finished:
            events += parser.feed_text(part) if is_text else parser.feed_ids(nano.encode_rendered(part))
    events += parser.finish(BackendReason.STOP)
    answer = add_up(events)
    if options.mode is ParseMode.STRICT:
        assert answer == parse_text([part for part, _ in parts], options)
    else:  # a tag is prose when it is too long, and a spelling is longer and has a `>` in it
        assert all(isinstance(json.loads(arguments), dict) for _, arguments in answer.finished)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters='"<>｜'), max_size=12)
VALUES = st.text(st.characters(codec="utf-8"), max_size=30).filter(
    lambda value: D not in value and not value.endswith("<")
)
JSON_VALUES = st.recursive(st.none() | st.booleans() | st.integers() | NAMES, lambda inner: st.lists(inner, max_size=3))
PARAMETERS = st.dictionaries(NAMES, VALUES.map(lambda v: (True, v)) | JSON_VALUES.map(lambda v: (False, v)), max_size=3)
CALLS = st.lists(st.tuples(NAMES, PARAMETERS), min_size=1, max_size=3)


@settings(max_examples=400)
@given(VALUES.filter(lambda text: not any(token in text for token in SpecialToken)), CALLS, SIZES)
def test_well_formed_calls_come_back_as_they_were_meant(
    prose: str, calls: list[tuple[str, dict[str, tuple[bool, object]]]], sizes: list[int]
) -> None:
    written = [
        call(
            name,
            *(
                parameter(
                    key, value if isinstance(value, str) and is_string else json.dumps(value), is_string=is_string
                )
                for key, (is_string, value) in parameters.items()
            ),
        )
        for name, parameters in calls
    ]
    answer = parse_text(cut(prose + "\n\n" + block(*written), sizes), ParseOptions())
    assert answer.text == prose.strip("\n")
    assert answer.reason is FinishReason.TOOL_CALLS
    assert answer.repairs == ()
    meant = [(name, {key: value for key, (_, value) in parameters.items()}) for name, parameters in calls]
    assert [(name, json.loads(arguments)) for name, arguments in answer.finished] == meant
    assert answer.fragments == tuple(arguments for _, arguments in answer.finished)
