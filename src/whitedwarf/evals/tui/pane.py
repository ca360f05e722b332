"""What the panes show, as text with colours: pure, from seats to lines. Control characters of an answer are shown as
dots, so that no model can write to the terminal."""

from collections.abc import Sequence

from textual.content import Content

from whitedwarf.conversation.visible import visible
from whitedwarf.evals.answer import Piece
from whitedwarf.evals.exam import Exam, Phase, Seat
from whitedwarf.evals.prompts import question_prompt

PHASE_STYLES = {
    Phase.PENDING: "dim",
    Phase.READING: "yellow",
    Phase.ANSWERING: "bold cyan",
    Phase.SKIPPED: "magenta",
    Phase.STOPPED: "magenta",
    Phase.PASSED: "green",
    Phase.FAILED: "red",
    Phase.ERROR: "bold red",
}
THOUGHT_STYLE = "dim"


def list_line(seat: Seat) -> Content:
    """A case in the list."""
    given = f" {seat.ending.given[:6]}" if seat.ending is not None and seat.ending.given else ""
    return Content.assemble(
        f"{seat.number:>3} ", (f"{seat.phase:<4}", PHASE_STYLES[seat.phase]), f" {visible(seat.case.name)}{given}"
    )


def head(exam: Exam, elapsed_s: float) -> Content:
    """The line above all."""
    phases = [seat.phase for seat in exam.seats]
    done = sum(not (phase.is_live or phase is Phase.PENDING) for phase in phases)
    minutes, seconds = divmod(int(elapsed_s), 60)
    return Content.assemble(
        f" {done}/{len(phases)} done   ",
        (f"{phases.count(Phase.PASSED)} passed", "green"),
        "   ",
        (f"{phases.count(Phase.FAILED) + phases.count(Phase.ERROR)} failed", "red"),
        f"   {minutes}:{seconds:02}   {visible(exam.target.facts.model)}   ",
        ("PAUSED" if exam.is_paused else "", "bold yellow"),
    )


def question(seat: Seat) -> Content:
    """The title and the question, as the model reads it."""
    title = f"{seat.case.name}: {seat.case.title}" + (f" ({seat.case.domain})" if seat.case.domain else "")
    return Content.assemble((visible(title), "bold"), "\n", visible(question_prompt(seat.case)))


def answer(seat: Seat, most_characters: int) -> Content:
    """The end of the answer, thoughts in grey, and the verdict."""
    parts = [
        (visible(piece.text), THOUGHT_STYLE if piece.is_thinking else "") for piece in _tail(seat, most_characters)
    ]
    return Content.assemble(*parts, *_verdict(seat))


def _tail(seat: Seat, most_characters: int) -> Sequence[Piece]:
    """The last pieces, neighbours of one kind together; a line divides thoughts from the answer."""
    joined: list[Piece] = []
    left = most_characters
    for piece in reversed(seat.answer.pieces):
        if left <= 0:
            break
        text = piece.text[-left:]
        left -= len(text)
        if joined and joined[-1].is_thinking == piece.is_thinking:
            joined[-1] = Piece(text + joined[-1].text, piece.is_thinking)
        else:
            end = "\n" if joined and not text.endswith("\n") else ""
            joined.append(Piece(text + end, piece.is_thinking))
    return joined[::-1]


def _verdict(seat: Seat) -> list[tuple[str, str]]:
    seen, ending = seat.answer, seat.ending
    if seat.phase is Phase.READING:
        return [(f"reading {seen.read_tokens}/{seen.prompt_tokens} tokens", "yellow")]
    if ending is None or seat.phase.is_live or seat.phase is Phase.PENDING:
        return []
    figures = f"{seen.prompt_tokens} + {seen.generated_tokens} tokens, {ending.elapsed_s:.1f} s"
    said = visible(ending.error) or f"answer {ending.given[:40] or 'none'}, right is {seat.case.answer}"
    return [(f"\n\n{ending.status}: {said}; {figures}", PHASE_STYLES[seat.phase])]
