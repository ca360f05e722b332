"""An exam as plain text: what a model says is shown, and cannot write to the terminal."""

import io

import anyio
import pytest

from evals.answering import ASKING, TableTarget, letters
from whitedwarf.cli.eval_plain import PlainDisplay
from whitedwarf.evals.exam import Exam


@pytest.mark.parametrize("is_streaming", [True, False])
def test_no_terminal_obeys_an_answer(is_streaming: bool) -> None:
    stream = io.StringIO()
    display = PlainDisplay(1, is_streaming=is_streaming, stream=stream)
    exam = Exam(letters("a"), TableTarget({"a": "\x1b[2J\x9b2JAnswer:\tB\r\n"}), ASKING, [display])
    anyio.run(exam.run)
    display.finish()
    assert "·[2J·2JAnswer:\tB·\n" in stream.getvalue()
    assert all(character.isprintable() or character in "\n\t" for character in stream.getvalue())
