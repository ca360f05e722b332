"""The output parser case by case; P-numbers are the public cases of demand.md."""

import pytest

from prompt.streams import Answer, D, add_up, block, call, parameter, parse_ids, parse_text
from whitedwarf.conversation.events import (
    BackendReason,
    Finished,
    FinishReason,
    ReasoningDelta,
    RepairKind,
    TextDelta,
)
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

SALVAGE = ParseOptions()
STRICT = ParseOptions(mode=ParseMode.STRICT)
THINKING = ParseOptions(start=ParseStart.REASONING)
RUN = call("run", parameter("cmd", "ls -la"))
RUN_LS = (("run", '{"cmd": "ls -la"}'),)


def in_every_cut(text: str, options: ParseOptions, reason: BackendReason = BackendReason.STOP) -> Answer:
    """The answer, which must be the same whole, cut in two anywhere, and one character at a time."""
    whole = parse_text([text], options, reason)
    for at in range(len(text)):
        assert parse_text([text[:at], text[at:]], options, reason) == whole
    assert parse_text(text, options, reason) == whole
    return whole


def test_a_misspelt_opener_is_repaired_and_counted_p01() -> None:
    answer = in_every_cut(block(RUN, opener="toolcalls"), SALVAGE)
    assert (answer.text, answer.finished, answer.reason) == ("", RUN_LS, FinishReason.TOOL_CALLS)
    assert answer.repairs == (RepairKind.MISSPELT_OPENER,)


def test_a_block_without_any_opener_is_repaired_p01() -> None:
    answer = in_every_cut("Now:\n\n" + RUN, SALVAGE)
    assert (answer.text, answer.finished, answer.repairs) == ("Now:", RUN_LS, (RepairKind.MISSING_OPENER,))


def test_a_closing_tag_never_leaks_into_an_argument_p02() -> None:
    text = block(call("run", parameter("cmd", "make 2>&1")))
    for options in (SALVAGE, STRICT):
        answer = in_every_cut(text, options)
        assert answer.finished == (("run", '{"cmd": "make 2>&1"}'),)
        assert answer.fragments == ('{"cmd": "make 2>&1"}',)


def test_an_empty_block_does_not_eat_the_answer_p03() -> None:
    answer = in_every_cut(f"Before. <{D}tool_calls></{D}tool_calls> After.", SALVAGE)
    assert (answer.text, answer.names, answer.reason) == ("Before.  After.", (), FinishReason.STOP)
    assert answer.repairs == (RepairKind.EMPTY_BLOCK,)


@pytest.mark.parametrize("tail", ["", "</think>"])
def test_a_call_before_the_end_of_thinking_is_a_call_p04(tail: str) -> None:
    answer = in_every_cut("I should list files.\n\n" + block(RUN) + tail, THINKING)
    assert (answer.reasoning, answer.finished, answer.reason) == (
        "I should list files.",
        RUN_LS,
        FinishReason.TOOL_CALLS,
    )
    assert answer.repairs == (RepairKind.CALL_IN_REASONING,)


def test_a_call_nobody_asked_for_vanishes_p05() -> None:
    answer = in_every_cut("Hi. " + block(RUN) + " Bye.", ParseOptions(parse_tool_calls=False))
    assert (answer.text, answer.names, answer.reason) == ("Hi.  Bye.", (), FinishReason.STOP)
    assert answer.repairs == (RepairKind.UNWANTED_CALL,)


def test_parameters_keep_their_types_p06() -> None:
    note = call("note_add", parameter("text", "007"), parameter("pinned", "true", is_string=False))
    ids, opts = parameter("ids", "[1, 2]", is_string=False), parameter("opts", '{"k":null}', is_string=False)
    answer = in_every_cut(block(note, call("pick", ids, opts, parameter("s", '{"a":1}'))), SALVAGE)
    assert answer.finished == (
        ("note_add", '{"text": "007", "pinned": true}'),
        ("pick", '{"ids": [1, 2], "opts": {"k":null}, "s": "{\\"a\\":1}"}'),
    )
    assert answer.repairs == ()


@pytest.mark.parametrize("value", ["oops", "", "[1, 2", "NaN", "[" * 100_000, "1 2"])
def test_a_value_that_is_no_json_becomes_a_string_p06(value: str) -> None:
    answer = parse_text([block(call("pick", parameter("ids", value, is_string=False)))], SALVAGE)
    assert answer.finished == (("pick", f'{{"ids": "{value}"}}'),)
    assert answer.repairs == (RepairKind.INVALID_JSON,)


@pytest.mark.parametrize("name", ["ship to", " string= x ", "", "键"])
def test_odd_parameter_names_survive_every_cut_p07(name: str) -> None:
    answer = in_every_cut(block(call("f", parameter(name, "two\nlines 漢"))), SALVAGE)
    assert answer.finished == (("f", f'{{"{name}": "two\\nlines 漢"}}'),)
    assert answer.repairs == ()


BODIES = {
    '{"cmd":"ls"}': '{"cmd":"ls"}',
    '\n {"cmd": "grep \'parameter name=\' {}"}\n': '{"cmd": "grep \'parameter name=\' {}"}',
    '{"cmd": "ls"': '{"arguments": "{\\"cmd\\": \\"ls\\""}',
    "ls -la\n": '{"arguments": "ls -la"}',
    "[1]": '{"arguments": "[1]"}',
    "a {b}": '{"arguments": "a {b}"}',
    '{"a": 1} b': '{"arguments": "{\\"a\\": 1} b"}',
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("blank", ["", " "])
def test_a_call_without_parameter_tags_keeps_what_it_says(body: str, blank: str) -> None:
    written = block(call("run", body).replace(D, D + blank), RUN)
    answer = in_every_cut(written, SALVAGE)
    assert answer.finished == (("run", BODIES[body]), *RUN_LS)
    assert answer.repairs == (RepairKind.BODY_WITHOUT_PARAMETERS,)
    answer = in_every_cut(written.replace(f"</{D}{blank}invoke>\n", "", 1), SALVAGE)
    assert answer.finished == (("run", BODIES[body]), *RUN_LS)
    assert answer.repairs == (RepairKind.UNCLOSED_CALL, RepairKind.BODY_WITHOUT_PARAMETERS)


def test_an_object_at_the_end_is_a_call_and_a_cut_one_is_none() -> None:
    opened = f'<{D}tool_calls>\n<{D}invoke name="run">'
    answer = in_every_cut(opened + '{"a": {}}', SALVAGE)
    assert answer.finished == (("run", '{"a": {}}'),)
    assert answer.repairs == (RepairKind.UNCLOSED_CALL, RepairKind.BODY_WITHOUT_PARAMETERS)
    for cut_off in ('{"a": {}', "ls"):
        assert in_every_cut(opened + cut_off, SALVAGE).repairs == (RepairKind.TRUNCATED_CALL,)
    assert in_every_cut(opened + '{"a": 1}', SALVAGE, BackendReason.LENGTH).finished == ()


def test_a_parameter_without_a_type_is_a_string() -> None:
    answer = in_every_cut(block(RUN.replace(' string="true"', "")), SALVAGE)
    assert (answer.finished, answer.repairs) == (RUN_LS, (RepairKind.BAD_ATTRIBUTE,))


@pytest.mark.parametrize("closer", [f"</{D}invoke>\n", f"</{D}tool_calls>", f"</{D}invoke>\n</{D}tool_calls>"])
def test_missing_closing_tags_are_repaired(closer: str) -> None:
    answer = in_every_cut(block(RUN).replace(closer, ""), SALVAGE)
    assert (answer.finished, answer.reason) == (RUN_LS, FinishReason.TOOL_CALLS)


@pytest.mark.parametrize("blank", ["", " "])
def test_a_value_that_was_not_closed_ends_where_the_next_tag_begins(blank: str) -> None:
    opened = f'<{D}{blank}invoke name="run">\n<{D}{blank}parameter name="cmd" string="true">ls'
    answer = in_every_cut(block(f"{opened}\n", RUN.replace(D, D + blank)), SALVAGE)
    assert answer.finished == (("run", '{"cmd": "ls"}'), *RUN_LS)
    assert answer.repairs == (RepairKind.UNCLOSED_CALL,)
    number = f'<{D}{blank}parameter name="n" string="false">1\n'
    answer = in_every_cut(block(f'<{D}invoke name="f">\n{number}', parameter("s", "x"), f"</{D}invoke>\n"), SALVAGE)
    assert answer.finished == (("f", '{"n": 1, "s": "x"}'),)
    assert answer.repairs == (RepairKind.MISSPELT_CLOSER,)


def test_v41_tags_with_a_space_are_read_like_v4_tags() -> None:
    text = block(RUN).replace(D, D + " ").replace("tool_calls", "calls")
    for options in (SALVAGE, STRICT):
        answer = in_every_cut("Hi\n\n" + text, options)
        assert (answer.text, answer.finished, answer.repairs) == ("Hi", RUN_LS, ())


def test_prose_about_the_markup_is_not_swallowed() -> None:
    answer = in_every_cut(f"The token <{D} begins every tag that this model writes, always.", SALVAGE)
    assert answer.text == "The token  begins every tag that this model writes, always."
    assert answer.repairs == (RepairKind.STRAY_MARKUP,)


@pytest.mark.parametrize("options", [SALVAGE, STRICT])
def test_pieces_of_a_stop_string_are_never_shown_p19(options: ParseOptions) -> None:
    parser = OutputParser(ParseOptions(mode=options.mode, stop_strings=("END_HERE", "never")))
    shown = [
        event
        for piece in ("abc", "EN", "D_", "HERE", "xyz")
        if not parser.is_finished
        for event in parser.feed_text(piece)
    ]
    assert [type(event).__name__ for event in shown] == ["TextDelta", "Finished"]
    answer = in_every_cut("abcEND_HERExyz", ParseOptions(mode=options.mode, stop_strings=("END_HERE",)))
    assert (answer.text, answer.reason, answer.stop_string) == ("abc", FinishReason.STOP_STRING, "END_HERE")


def test_text_held_for_a_stop_string_is_released_in_full_p19() -> None:
    answer = in_every_cut("abcEND_THERE", ParseOptions(stop_strings=("END_HERE",)))
    assert (answer.text, answer.reason) == ("abcEND_THERE", FinishReason.STOP)


def test_stop_strings_do_not_count_in_thinking() -> None:
    answer = in_every_cut("a END b</think>\n\nc END d", ParseOptions(start=ParseStart.REASONING, stop_strings=("END",)))
    assert (answer.reasoning, answer.text) == ("a END b", "c ")


def test_characters_split_over_tokens_stay_whole_p20(deepseek: Tokenizer) -> None:
    byte_ids = {deepseek.token_bytes(i): i for i in range(1000) if len(deepseek.token_bytes(i)) == 1}
    ids = [byte_ids[bytes([byte])] for byte in "ok 🦔漢".encode()]
    assert parse_ids([[i] for i in ids], SALVAGE, deepseek).text == "ok 🦔漢"
    broken = [byte_ids[b"\xf0"], *(byte_ids[bytes([byte])] for byte in b"ok"), byte_ids[b"\xe6"]]
    assert parse_ids([[i] for i in broken], SALVAGE, deepseek).text == "\ufffdok\ufffd"


@pytest.mark.parametrize("mode", ParseMode)
def test_a_truncated_call_is_never_closed_p21(mode: ParseMode) -> None:
    text = block(call("run", parameter("cmd", "rm -rf /tmp/x")))
    for end in range(text.index("name=") + 10, text.index(f"</{D}invoke") + 3):
        answer = parse_text([text[:end]], ParseOptions(mode=mode), BackendReason.LENGTH)
        assert (answer.finished, answer.reason) == ((), FinishReason.LENGTH)
        assert not any(fragment.endswith("}") for fragment in answer.fragments)


def test_a_call_that_stops_inside_a_value_is_not_closed_either() -> None:
    text = block(RUN)
    answer = parse_text([text[: text.index("-la")]], SALVAGE)
    assert (answer.finished, answer.reason, answer.repairs) == ((), FinishReason.STOP, (RepairKind.TRUNCATED_CALL,))


@pytest.mark.parametrize("mode", ParseMode)
def test_a_runaway_call_ends_at_its_budget_p35(mode: ParseMode) -> None:
    parser = OutputParser(ParseOptions(mode=mode, max_call_tokens=100))
    parser.feed_text(f'Hi <{D}tool_calls>\n<{D}invoke name="run">\n<{D}parameter name="cmd" string="true">')
    fed = 0
    while not parser.is_finished:
        events = parser.feed_text("echo again\n")
        fed += 1
    assert fed == 101
    assert [getattr(event, "reason", None) for event in events][-1] is FinishReason.LENGTH
    assert parser.repairs == {RepairKind.RUNAWAY_CALL: 1}


def test_a_stray_byte_between_tags_does_not_freeze_the_state_p35() -> None:
    for options in (SALVAGE, STRICT):
        assert in_every_cut(block("\x00\ufffd", RUN, "\x01"), options).finished == RUN_LS


def test_control_tokens_count_only_as_tokens_when_ids_are_fed(deepseek: Tokenizer) -> None:
    spelt = deepseek.encode("a</think>" + block(RUN))
    close, dsml = deepseek.special_id(SpecialToken.THINK_CLOSE), deepseek.special_id(SpecialToken.DSML)
    answer = parse_ids([spelt], THINKING, deepseek)
    assert (answer.reasoning, answer.names) == ("a</think>" + block(RUN), ())
    typed: list[int] = [*deepseek.encode("a"), close]
    for i, part in enumerate(block(RUN).split(D)):
        typed += ([dsml] if i else []) + deepseek.encode(part)
    answer = parse_ids([[i] for i in typed], THINKING, deepseek)
    assert (answer.reasoning, answer.text, answer.finished) == ("a", "", RUN_LS)


def test_required_calls_start_inside_the_block() -> None:
    options = ParseOptions(starts_in_tool_calls=True)
    assert in_every_cut(block(RUN).removeprefix(f"<{D}tool_calls>"), options).finished == RUN_LS


def test_text_around_a_json_answer_is_one_space_in_salvage() -> None:
    options = ParseOptions(parse_json_output=True)
    assert in_every_cut('Sure!\n```json\n{"a": "```"}\n``` Done.', options).text == ' {"a": "```"} '


def test_a_call_within_a_json_answer_is_a_call_in_salvage() -> None:
    answer = in_every_cut('I call [{"a": 1},\n\n' + block(RUN), ParseOptions(parse_json_output=True))
    assert (answer.text, answer.finished, answer.repairs) == (' [{"a": 1},', RUN_LS, ())


def test_a_json_answer_goes_on_after_markup_that_is_none() -> None:
    answer = in_every_cut(f'{{"a": "</think>{D}", "b": <｜User｜>1}}', ParseOptions(parse_json_output=True))
    assert answer.text == '{"a": "", "b": 1}'


def test_an_answer_that_ends_in_prose_about_the_markup_is_whole() -> None:
    for tag in (f"<{D}", D, f"</{D}"):
        answer = in_every_cut(f"It is {tag}, so <{D} that's all.", SALVAGE)
        assert answer.text == "It is , so  that's all."
    for cut in (f"Hi <{D}tool_ca", f"Hi <{D} calls", f'Hi <{D}invoke name="ru', f"Hi </{D} calls"):
        assert in_every_cut(cut, SALVAGE, BackendReason.LENGTH).text == "Hi "


@pytest.mark.parametrize("options", [SALVAGE, THINKING])
def test_control_tokens_out_of_place_vanish_and_are_counted(options: ParseOptions) -> None:
    answer = in_every_cut("a <think>b<｜User｜>c", options)
    assert answer.reasoning + answer.text == "a bc"
    assert answer.repairs == (RepairKind.STRAY_MARKUP,) * 2


@pytest.mark.parametrize("is_json", [False, True])
def test_a_thought_nobody_asked_for_is_no_answer(is_json: bool) -> None:
    options = ParseOptions(parse_json_output=is_json)
    answer = in_every_cut('\n<think>\nHm, {"a <think>\n\n</think>\n\n{"b": 1}', options)
    assert (answer.reasoning, answer.text) == ('Hm, {"a ', '{"b": 1}')
    assert answer.repairs == (RepairKind.UNASKED_THOUGHT, RepairKind.STRAY_MARKUP)
    assert in_every_cut("<think>So it", options).reasoning == "So it"
    called = in_every_cut("<think>So " + block(RUN), options)
    assert (called.finished, called.repairs[1:]) == (RUN_LS, (RepairKind.CALL_IN_REASONING,))


def test_a_thought_nobody_asked_for_is_one_in_ids_too(nano: Tokenizer) -> None:
    ids = nano.encode_rendered("<think>So</think>\n\nYes <think>")
    answer = parse_ids([[i] for i in ids], SALVAGE, nano)
    assert (answer.reasoning, answer.text) == ("So", "Yes ")
    assert answer.repairs == (RepairKind.UNASKED_THOUGHT, RepairKind.STRAY_MARKUP)
    spelt = parse_ids([nano.encode("<think>So</think>Yes")], SALVAGE, nano)
    assert (spelt.reasoning, spelt.text) == ("", "<think>So</think>Yes")


def test_an_answer_the_prompt_began_has_no_thought_of_its_own() -> None:
    answer = in_every_cut("<think>a</think>b", ParseOptions(start=ParseStart.CONTENT_CONTINUED))
    assert (answer.text, answer.repairs) == ("ab", (RepairKind.STRAY_MARKUP,))
    assert parse_text(["<think>a</think>b"], STRICT).text == "<think>ab"


def test_control_tokens_out_of_place_are_shown_officially() -> None:
    assert parse_text(["a <think>b<｜User｜>c"], STRICT).text == "a <think>b<｜User｜>c"


def test_text_and_ids_may_come_for_one_answer(nano: Tokenizer) -> None:
    close, dsml = nano.special_id(SpecialToken.THINK_CLOSE), nano.special_id(SpecialToken.DSML)
    parser = OutputParser(THINKING, nano)
    events = parser.feed_text("a </thi") + parser.feed_ids(nano.encode("nk>"))
    events += parser.feed_ids([*nano.encode(" b\n"), close]) + parser.feed_text("c\n\n<", 3)
    events += parser.feed_ids([dsml, *nano.encode("tool_calls>\n<")])
    events += parser.feed_text(RUN.removeprefix("<")) + parser.feed_ids(nano.encode("</"))
    events += parser.feed_text(f"{D}tool_calls>") + parser.finish(BackendReason.STOP)
    answer = add_up(events)
    assert (answer.reasoning, answer.text, answer.finished) == ("a </think> b\n".rstrip(), "c", RUN_LS)
    assert answer.repairs == ()


def test_ids_need_a_tokenizer() -> None:
    with pytest.raises(ValueError, match="no tokenizer"):
        OutputParser(SALVAGE).feed_ids([1])


def test_pieces_after_the_end_are_refused() -> None:
    parser = OutputParser(SALVAGE)
    parser.finish()
    assert parser.finish() == []
    with pytest.raises(ValueError, match="finished"):
        parser.feed_text("a")


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        ParseOptions(stop_strings=("",))


def test_deltas_name_the_tokens_they_come_from(deepseek: Tokenizer) -> None:
    parser = OutputParser(THINKING, deepseek)
    close = deepseek.special_id(SpecialToken.THINK_CLOSE)
    ids = [*deepseek.encode("So then"), close, *deepseek.encode("Yes, indeed")]
    assert len(ids) == 6
    events = [event for token_id in ids for event in parser.feed_ids([token_id])]
    spans = [event.token_span for event in events if isinstance(event, ReasoningDelta | TextDelta)]
    assert spans == [(0, 1), (1, 2), (3, 4), (4, 5), (5, 6)]
    (last,) = parser.finish()
    assert isinstance(last, Finished)
    assert (last.completion_tokens, last.reasoning_tokens) == (6, 2)
