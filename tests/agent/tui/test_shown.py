"""What models and programs say reaches the terminal as signs, never as orders."""

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.agent.tui.shown import one_line, shortened, shown


def test_orders_to_a_terminal_are_shown() -> None:
    assert shown("\x1b[31mred\x07\x9b2J\x7f") == "␛[31mred␇⟨009B⟩2J␡"


def test_line_ends_and_tabs_stay_and_windows_line_ends_become_ours() -> None:
    assert shown("a\tb\r\nc\rd") == "a\tb\nc␍d"


def test_what_turns_or_hides_text_is_shown() -> None:
    assert shown("a\u202egnp.exe\u2066b\u200f\u2028\ufeff") == "a⟨202E⟩gnp.exe⟨2066⟩b⟨200F⟩⟨2028⟩⟨FEFF⟩"
    assert shown("x\U000e0041") == "x⟨E0041⟩"


def test_lone_surrogates_can_be_written() -> None:
    assert shown("\ud800").encode() == "\ufffd".encode()


def test_other_scripts_stay_as_they_are() -> None:
    text = "日本語 עברית العربية 👩‍👩‍👧 e\u0301 ❄️"
    assert shown(text) == text


@settings(deadline=None)
@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    kept = set(shown(text)) - {"\n", "\t"}
    assert not [character for character in kept if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")]


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert "\n" not in one_line(text)
    assert one_line(one_line(text)) == one_line(text)


def test_what_is_shortened_says_so() -> None:
    assert (shortened("abcdef", 6), shortened("abcdef", 4), shortened("abcdef", 0)) == ("abcdef", "abc…", "…")
