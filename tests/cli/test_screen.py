import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.cli.progress import ByteProgress, ProgressLine, prefill_text, speeds_text
from whitedwarf.cli.screen import Piece, Screen
from whitedwarf.engine.request import Finished, FinishReason, Prefilled


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, *pieces: Piece) -> str:
    screen = Screen(stream)
    for piece in pieces:
        screen.show(piece)
    screen.finish()
    return stream.getvalue()


THOUGHT, ANSWER = Piece("hmm", True), Piece("yes", False)


def test_thoughts_are_grey_on_a_terminal_and_a_newline_ends_them() -> None:
    assert shown(Terminal(), THOUGHT, ANSWER) == "\033[90mhmm\033[0m\nyes\n"


def test_elsewhere_nothing_is_coloured() -> None:
    assert shown(io.StringIO(), THOUGHT, ANSWER) == "hmm\nyes\n"


def test_a_terminal_obeys_nothing_that_a_model_says() -> None:
    hostile = "\033]0;title\007\033[2Jgone\r\x9b31m\u202eevil\ttab"
    assert shown(Terminal(), Piece(hostile, False)) == "·]0;title··[2Jgone··31m·evil\ttab\n"
    assert shown(Terminal(), Piece(hostile, True)) == "\033[90m·]0;title··[2Jgone··31m·evil\ttab\033[0m\n"
    assert shown(io.StringIO(), Piece(hostile, False)) == hostile + "\n"


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_user_or_terminal_without_colours_gets_none(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert shown(Terminal(), THOUGHT, ANSWER) == "hmm\nyes\n"


def test_newlines_are_not_doubled() -> None:
    assert shown(io.StringIO(), Piece("a\n", True), Piece("b\n", False)) == "a\nb\n"
    assert shown(io.StringIO()) == ""


@given(st.lists(st.builds(Piece, st.text("ab\n", min_size=1, max_size=3), st.booleans())))
def test_colour_is_always_switched_off_again(pieces: list[Piece]) -> None:
    text = shown(Terminal(), *pieces)
    assert text.count("\033[90m") == text.count("\033[0m")
    assert text == "" or text.endswith(("\n", "\033[0m"))


def test_a_terminal_has_one_progress_line_that_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    line = ProgressLine(stream)
    line.show("1/2")
    line.show("2/2")
    line.clear()
    line.clear()
    assert stream.getvalue() == "\r\033[K1/2\r\033[K2/2\r\033[K"


def test_elsewhere_progress_is_a_line_per_step() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    line.show("1/2")
    line.show("2/2")
    line.clear()
    assert stream.getvalue() == "1/2\n2/2\n"


def test_a_dumb_terminal_gets_no_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    line = ProgressLine(stream)
    line.show("1/2")
    line.clear()
    assert stream.getvalue() == "1/2\n"


def test_prefill_progress_has_one_decimal() -> None:
    assert prefill_text(Prefilled(2048, 6000)) == "reading 2048/6000 tokens (34.1%)"


def test_speeds_have_two_decimals_and_do_not_count_reused_tokens() -> None:
    finished = Finished(FinishReason.STOP, 110, 30, reused_tokens=10, prefill_s=2.0, decode_s=4.0)
    assert speeds_text(finished) == "prefill: 50.00 t/s, generation: 7.50 t/s (100 and 30 tokens)"
    assert speeds_text(Finished(FinishReason.LENGTH, 1, 0)).startswith("prefill: 0.00 t/s, generation: 0.00 t/s")


def test_a_walk_over_a_file_tells_ten_times_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ByteProgress("checking")
    for done in range(1001):
        progress.show(done, 1000)
    progress.finish()
    lines = capsys.readouterr().err.splitlines()
    assert 9 <= len(lines) <= 10
    assert lines[0] == "checking 10% of 1000 B"
