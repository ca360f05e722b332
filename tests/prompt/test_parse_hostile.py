"""Output that no model should write: the parser takes time in proportion to it, whatever it is."""

import random
import re
import time
from collections.abc import Callable

import pytest

from whitedwarf.conversation.events import BackendReason, ToolCallFinished
from whitedwarf.prompt import salvage_call
from whitedwarf.prompt.call_position import CallPosition
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions, ParseStart
from whitedwarf.prompt.tokenizer import Tokenizer

LONG_S = 10.0  # of the processor; each takes about one second, and minutes when something is quadratic
COUNT = 100_000
UNKNOWN_ID = 10**7
BLOCK = "<｜DSML｜tool_calls>\n"
CALL = f'{BLOCK}<｜DSML｜invoke name="f">\n'
PARAMETER = f"{CALL}<｜DSML｜parameter name="

MODES = pytest.mark.parametrize("mode", ParseMode, ids=lambda mode: mode.name.lower())


@pytest.fixture(autouse=True)
def in_bounded_time() -> object:
    started = time.process_time()
    yield
    assert time.process_time() - started < LONG_S


def read_whole(text: str, mode: ParseMode, start: ParseStart = ParseStart.CONTENT) -> OutputParser:
    parser = OutputParser(ParseOptions(mode=mode, start=start))
    parser.feed_text(text)
    parser.finish(BackendReason.STOP)
    return parser


TEXTS: dict[str, Callable[[int], str]] = {
    "openers": lambda count: "<｜DSML｜" * count,
    "bare openers": lambda count: "｜DSML｜x" * count,
    "closers": lambda count: "</｜DSML｜" * count,
    "openers with a far end": lambda count: "<｜DSML｜tool_calls" * count + ">",
    "closers in a block": lambda count: CALL + "</｜DSML｜x" * count,
    "newlines": lambda count: "x" + "\n" * count + "x" + "\n\nx" * count,
    "ends of thoughts": lambda count: "</think>" * count,
    "parameters": lambda count: (
        CALL + '<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>\n' * (count // 10)
    ),
    "quotes": lambda count: PARAMETER + '"a" string="true">' + '"\\\0' * count,
    "blanks for a name": lambda count: PARAMETER + " " * count + '">',
    "quoted blanks for a name": lambda count: PARAMETER + '"' + " \t" * count + '">',
    "kinds for a name": lambda count: PARAMETER + ' string="true' * count + '">',
    "a deep value": lambda count: PARAMETER + '"a" string="false">' + "[" * count + "</｜DSML｜parameter>",
    "braces among other text": lambda count: CALL + " \n" * count + "x{" * count,
    "tags of ordinary text": lambda count: (
        "<tool_calls>x" * (count // 10) + "<tool_calls> <invoke name=" * (count // 10)
    ),
    "many digits": lambda count: PARAMETER + '"a" string="false">' + "1" * count + "</｜DSML｜parameter>",
}


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_in_one_piece_takes_no_longer_than_its_length(name: str, mode: ParseMode) -> None:
    read_whole(TEXTS[name](COUNT), mode)
    read_whole(TEXTS[name](COUNT), mode, ParseStart.REASONING)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_ids_one_by_one_take_no_longer_than_their_number(name: str, nano: Tokenizer) -> None:
    parser, position = OutputParser(ParseOptions(), nano), CallPosition(nano, ParseOptions())
    for token in nano.encode_rendered(TEXTS[name](COUNT // 5)):
        parser.feed_ids([token])
        position.accept(token)
    assert parser.finish()


@MODES
@pytest.mark.parametrize("first", ["", "é", "\ufffd", "half a character"])
def test_ids_that_stand_for_nothing_take_no_longer_than_others(
    first: str, mode: ParseMode, deepseek: Tokenizer
) -> None:
    parser = OutputParser(ParseOptions(mode=mode), deepseek)
    ids = deepseek.encode("😀") if first == "half a character" else deepseek.encode(first)
    parser.feed_ids(ids[:1])
    for _ in range(COUNT):
        parser.feed_ids([UNKNOWN_ID])
    assert parser.finish()


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("text", [" word", '"\\', "\n", "1,", "</", "<", "x y"])
@pytest.mark.parametrize("before", ["", PARAMETER + '"a" string="true">', PARAMETER + '"a" string="false">', PARAMETER])
def test_an_answer_that_never_ends_takes_time_by_the_token(
    before: str, text: str, mode: ParseMode, deepseek: Tokenizer
) -> None:
    dsml = deepseek.vocabulary.special_ids["｜DSML｜"]
    parser = OutputParser(ParseOptions(mode=mode), deepseek)
    for number, stretch in enumerate(before.split("｜DSML｜")):
        parser.feed_ids([dsml] * (number > 0) + deepseek.encode(stretch))
    for token_id in deepseek.encode(text) * 10_000:
        parser.feed_ids([token_id])
    parser.finish(BackendReason.LENGTH)


# What the parameter's attributes are, by one expression: right, and far too slow for a long text.
ATTRIBUTES = re.compile(r"""\s*(?P<quote>"?)(?P<name>.*)(?P=quote)\s+string=["']?(?P<kind>true|false)""", re.DOTALL)
SCRAPS = ['"', " ", "\n", "a", "string=", "true", "false", "'", '"true', ' string="true', ' string="false', "\u2003"]


def test_attributes_are_what_one_slow_expression_says() -> None:
    dice = random.Random(1)
    for _ in range(20_000):
        text = "".join(dice.choices(SCRAPS, k=dice.randint(0, 7)))
        found = ATTRIBUTES.fullmatch(text)
        if found is not None:
            expected = found["name"], found["kind"] == "false", bool(found["quote"])
            assert salvage_call._attributes(text) == expected


def test_a_call_of_a_thousand_parameters_is_whole() -> None:
    parser = OutputParser(ParseOptions())
    events = parser.feed_text(TEXTS["parameters"](10_000) + "</｜DSML｜invoke>\n</｜DSML｜tool_calls>")
    (finished,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert finished.arguments.count('"a": "x"') == 1_000


@pytest.mark.parametrize("text", ["<", "<｜", "<｜place▁hold", "<think>"])
def test_a_thought_full_of_half_control_tokens_is_counted_in_linear_time(text: str, deepseek: Tokenizer) -> None:
    read = OutputParser(ParseOptions(mode=ParseMode.STRICT, start=ParseStart.REASONING), deepseek)
    read.feed_text(text * 400_000)
    assert read.finish(BackendReason.STOP)


def test_spelt_control_tokens_are_found_longest_first(deepseek: Tokenizer) -> None:
    spellings = sorted(deepseek.vocabulary.special_ids, key=len, reverse=True)
    slow = re.compile("|".join(map(re.escape, spellings)))
    dice = random.Random(2)
    for _ in range(300):
        chosen = [dice.choice([*spellings, "<", "｜", "1", "｜>"]) for _ in range(6)]
        text = "".join(spelling[: dice.randint(1, 40)] for spelling in chosen)
        counted = sum(len(deepseek.encode(stretch)) for stretch in slow.split(text)) + len(slow.findall(text))
        assert deepseek.count_spelt(text) == counted


def test_long_stop_strings_cost_what_the_text_has_in_common_with_them() -> None:
    stops = tuple("a" * (3_000_000 + number) for number in range(16))
    parser = OutputParser(ParseOptions(start=ParseStart.CONTENT, stop_strings=stops))
    started_s = time.process_time()
    for _ in range(100):
        parser.feed_text("ab")
    assert time.process_time() - started_s < 1  # tables of whole strings would take four seconds
    assert not parser.is_finished
