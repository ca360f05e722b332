import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt.streams import cut
from whitedwarf.protocol.custom_input import CustomInput


def told(fragments: list[str], *, only_leading: bool = False, is_complete: bool = True) -> list[str]:
    reader = CustomInput(only_leading=only_leading)
    return [*(reader.feed(fragment) for fragment in fragments), reader.finish(is_complete=is_complete)]


def whole(text: str, *, only_leading: bool = False, is_complete: bool = True) -> str:
    return "".join(told([text], only_leading=only_leading, is_complete=is_complete))


def test_a_leading_input_is_told_while_it_comes() -> None:
    assert told(["{", '"input"', ": ", '"', "*** Beg", 'in\\n"', "}"]) == ["", "", "", "", "*** Beg", "in\n", "", ""]


def test_what_follows_the_input_is_left_out() -> None:
    assert whole('{"input": "a", "b": "c"}') == "a"


def test_an_escape_waits_for_its_end() -> None:
    assert told(['{"input": "a\\', "u00", "e9", '\\ud83e\\u"'[:6], '\\udd94"}']) == ["a", "", "é", "", "🦔", ""]


def test_a_wrong_escape_is_told_as_it_came() -> None:
    assert whole('{"input": "\\q\\ud83ex\\udd94\\u12"34"}') == '\\q\\ud83ex\\udd94\\u12"34'


def test_officially_only_a_leading_input_counts() -> None:
    assert whole('{"b": 1, "input": "a"}', only_leading=True) == '{"b": 1, "input": "a"}'
    assert whole('{"patch": "a"}', only_leading=True) == '{"patch": "a"}'
    assert whole("{}", only_leading=True) == "{}"


def test_an_input_further_on_is_found_once_the_call_is_complete() -> None:
    assert told(['{"b": 1, "inp', 'ut": "a\\n"}']) == ["", "", "a\n"]


def test_the_only_text_is_the_input_whatever_its_name() -> None:
    assert whole('{"patch": "*** Begin Patch\\n"}') == "*** Begin Patch\n"


def test_no_arguments_are_no_input() -> None:
    assert whole("{}") == ""


def test_what_is_no_text_stays_json() -> None:
    for arguments in ('{"input": [1, 2]}', '{"a": "b", "c": "d"}', '{"n": 1}', "[1]"):
        assert whole(arguments) == arguments


def test_of_arguments_cut_off_everything_is_told() -> None:
    assert whole('{"input": "ab\\', is_complete=False) == "ab\\"
    assert whole('{"inp', is_complete=False) == '{"inp'
    assert whole('{"patch": "ab', is_complete=False) == '{"patch": "ab'


@given(st.text(), st.booleans(), st.booleans(), st.lists(st.integers(0, 5)))
def test_every_text_comes_through_however_it_is_cut(
    text: str, is_ascii: bool, only_leading: bool, sizes: list[int]
) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=is_ascii)
    assert "".join(told(cut(arguments, sizes), only_leading=only_leading)) == text


@given(st.lists(st.sampled_from(['{"input": "', '"', "\\", "u", "d83e", "dd94", "00e9", "n", "é", "}", ' {"k": '])))
def test_any_fragments_tell_the_same_as_their_sum(fragments: list[str]) -> None:
    for only_leading in (True, False):
        text = "".join(fragments)
        assert "".join(told(fragments, only_leading=only_leading)) == whole(text, only_leading=only_leading)


@pytest.mark.parametrize("head", ['{"input": "', '{"other": "', "[", "{"])
@pytest.mark.parametrize("piece", ["word", " ", "\\"])
def test_an_input_that_never_ends_takes_time_by_the_fragment(head: str, piece: str) -> None:
    reader = CustomInput(only_leading=False)
    reader.feed(head)
    started = time.process_time()
    for _ in range(300_000):
        reader.feed(piece * 4)
    reader.finish(is_complete=False)
    assert time.process_time() - started < 20
