"""An exam: every case has its end, whatever happens, and people can pause, choose and stop."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import pytest

from evals.answering import ASKING, TableTarget, letters
from whitedwarf.errors import WhitedwarfError
from whitedwarf.evals.answer import Piece
from whitedwarf.evals.exam import Exam, Phase, Seat, Watcher
from whitedwarf.evals.grade import Status
from whitedwarf.evals.target import NoMoreQuestionsError

PATIENCE_S = 60


@dataclass
class Log(Watcher):
    began: list[str] = field(default_factory=list)
    ended: list[tuple[str, Status]] = field(default_factory=list)
    heard: list[Piece] = field(default_factory=list)
    phases: dict[str, list[Phase]] = field(default_factory=dict)

    def on_begin(self, seat: Seat) -> None:
        self.began.append(seat.case.id)
        self._note(seat)

    def on_news(self, seat: Seat, piece: Piece | None) -> None:
        self._note(seat)
        if piece is not None:
            self.heard.append(piece)

    def on_end(self, seat: Seat) -> None:
        assert seat.ending is not None
        self.ended.append((seat.case.id, seat.ending.status))
        self._note(seat)

    def _note(self, seat: Seat) -> None:
        seen = self.phases.setdefault(seat.case.id, [])
        if not seen or seen[-1] is not seat.phase:
            seen.append(seat.phase)


def run(exam: Exam, *steps: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(exam.run)
                for step in steps:
                    await step()

    anyio.run(main)


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await anyio.sleep(0.001)


def statuses(exam: Exam) -> list[Phase]:
    return [seat.phase for seat in exam.seats]


def test_all_cases_are_asked_in_order_and_graded() -> None:
    target, log = TableTarget({"b": "Hm. </think> Answer: C", "c": "</think> no idea"}), Log()
    exam = Exam(letters("a", "b", "c"), target, ASKING, [log])
    run(exam)
    assert target.asked == log.began == ["a", "b", "c"]
    assert statuses(exam) == [Phase.PASSED, Phase.FAILED, Phase.FAILED]
    assert [seat.ending.given for seat in exam.seats if seat.ending] == ["B", "C", ""]
    assert log.phases["a"] == [Phase.READING, Phase.ANSWERING, Phase.PASSED]
    assert log.heard[:3] == [Piece("Hm. ", True), Piece("Well. ", True), Piece("Answer: ", False)]
    assert exam.seats[0].answer.text == "Hm. Well. </think>Answer: B "


@pytest.mark.parametrize("parallel", [1, 2, 3, 50])
def test_no_more_than_asked_for_run_at_a_time(parallel: int) -> None:
    target = TableTarget()
    exam = Exam(letters(*"abcdefgh"), target, ASKING, parallel=parallel)
    run(exam)
    assert set(statuses(exam)) == {Phase.PASSED}
    assert target.most_at_once == min(parallel, 8)


def test_errors_and_skips_are_endings_too() -> None:
    target = TableTarget({"b": WhitedwarfError("lost")}, skipped=frozenset("c"))
    log = Log()
    exam = Exam(letters("a", "b", "c"), target, ASKING, [log])
    run(exam)
    assert statuses(exam) == [Phase.PASSED, Phase.ERROR, Phase.SKIPPED]
    assert log.ended == [("a", Status.PASSED), ("b", Status.ERROR), ("c", Status.SKIPPED)]
    assert [seat.ending.error for seat in exam.seats if seat.ending] == ["", "lost", "no room"]
    assert target.asked == ["a", "b"]


def test_a_target_that_answers_no_more_ends_the_exam() -> None:
    log = Log()
    held = {"a": anyio.Event()}
    target = TableTarget({"b": NoMoreQuestionsError("wrong key")}, held)
    exam = Exam(letters("a", "b", "c"), target, ASKING, [log], parallel=2)
    with pytest.raises(NoMoreQuestionsError, match="wrong key"):
        anyio.run(exam.run)
    assert statuses(exam) == [Phase.STOPPED, Phase.ERROR, Phase.PENDING]
    assert sorted(log.ended) == [("a", Status.STOPPED), ("b", Status.ERROR)]


def test_stopping_ends_what_runs_and_asks_nothing_more() -> None:
    target, log = TableTarget(held={"a": anyio.Event()}), Log()
    exam = Exam(letters("a", "b"), target, ASKING, [log])

    async def stop() -> None:
        await until(lambda: exam.seats[0].phase is Phase.ANSWERING)
        exam.stop()

    run(exam, stop)
    assert statuses(exam) == [Phase.STOPPED, Phase.PENDING]
    assert exam.seats[0].answer.text == "Hm. "
    assert log.ended == [("a", Status.STOPPED)]


def test_stopping_ends_the_rest_after_a_case() -> None:
    exam = Exam(letters("a", "b"), TableTarget(), ASKING, pause_s=10 * PATIENCE_S)

    async def stop() -> None:
        await until(lambda: exam.seats[0].phase is Phase.PASSED)
        exam.stop()

    run(exam, stop)
    assert statuses(exam) == [Phase.PASSED, Phase.PENDING]


def test_a_cancelled_exam_tells_of_what_was_running() -> None:
    target, log = TableTarget(held={"a": anyio.Event()}), Log()
    exam = Exam(letters("a", "b"), target, ASKING, [log])

    async def main() -> None:
        with anyio.move_on_after(0.05):
            await exam.run()

    anyio.run(main)
    assert log.ended == [("a", Status.STOPPED)]
    assert statuses(exam) == [Phase.STOPPED, Phase.PENDING]


def test_while_it_is_paused_nothing_new_is_asked() -> None:
    held = {"a": anyio.Event()}
    target = TableTarget(held=held)
    exam = Exam(letters("a", "b"), target, ASKING)

    async def pause() -> None:
        await until(lambda: target.asked == ["a"])
        exam.pause(True)
        held["a"].set()
        await until(lambda: exam.seats[0].phase is Phase.PASSED)
        await anyio.sleep(0.02)
        assert target.asked == ["a"]
        exam.pause(False)

    run(exam, pause)
    assert target.asked == ["a", "b"]
    assert target.paused[:2] == [True, False]


def test_another_case_can_be_asked_at_once_and_the_running_one_comes_right_after() -> None:
    target, log = TableTarget(held={"a": anyio.Event()}), Log()
    exam = Exam(letters("a", "b", "c", "d"), target, ASKING, [log])

    async def switch() -> None:
        await until(lambda: exam.seats[0].phase is Phase.ANSWERING)
        del target.held["a"]
        assert exam.ask_next(3)
        assert not exam.ask_next(1)  # it is running

    run(exam, switch)
    assert target.asked == ["a", "c", "a", "b", "d"]
    assert log.ended[:3] == [("a", Status.SWITCHED), ("c", Status.PASSED), ("a", Status.PASSED)]
    assert set(statuses(exam)) == {Phase.PASSED}


def test_with_a_free_place_nobody_is_given_up() -> None:
    held = {"a": anyio.Event()}
    target, log = TableTarget(held=held), Log()
    exam = Exam(letters("a", "b", "c"), target, ASKING, [log], parallel=1)

    async def switch() -> None:
        await until(lambda: target.asked == ["a"])
        held["a"].set()
        await until(lambda: exam.seats[0].phase is Phase.PASSED)
        exam.ask_next(3)

    run(exam, switch)
    assert [status for _, status in log.ended] == [Status.PASSED] * 3


def test_of_several_running_ones_the_newest_is_given_up() -> None:
    held = {"a": anyio.Event(), "b": anyio.Event()}
    target, log = TableTarget(held=dict(held)), Log()
    ticks = iter(range(1000))
    exam = Exam(letters(*"abcd"), target, ASKING, [log], parallel=2, clock=lambda: float(next(ticks)))

    async def switch() -> None:
        await until(lambda: {seat.phase for seat in exam.seats[:2]} == {Phase.ANSWERING})
        del target.held["b"]
        exam.ask_next(4)
        held["a"].set()

    run(exam, switch)
    assert log.ended[0] == ("b", Status.SWITCHED)
    assert set(statuses(exam)) == {Phase.PASSED}


def test_choosing_ends_a_pause_and_an_answered_case_is_not_asked_again() -> None:
    target = TableTarget(held={"a": anyio.Event()})
    exam = Exam(letters("a", "b"), target, ASKING)

    async def switch() -> None:
        await until(lambda: target.asked == ["a"])
        exam.pause(True)
        del target.held["a"]
        assert exam.ask_next(2)
        assert not exam.is_paused
        await until(lambda: exam.seats[1].phase is Phase.PASSED)
        assert not exam.ask_next(2)

    run(exam, switch)
    assert target.asked == ["a", "b", "a"]


def test_what_a_watcher_raises_ends_the_exam_as_itself() -> None:
    class Broken(Watcher):
        def on_news(self, seat: Seat, piece: Piece | None) -> None:
            raise BrokenPipeError("nobody reads")

    log = Log()
    exam = Exam(letters("a", "b"), TableTarget(), ASKING, [log, Broken()], parallel=2)
    with pytest.raises(BrokenPipeError, match="nobody reads"):
        anyio.run(exam.run)
    assert ("a", Status.STOPPED) in log.ended


def test_a_new_attempt_forgets_what_the_first_one_said() -> None:
    exam = Exam(letters("a"), TableTarget(), ASKING)
    answer = exam.seats[0].answer
    answer.say(b"half an ans", "half an ans", is_thinking=True)
    answer.generated_tokens = 3
    answer.again("cut")
    assert (answer.text, answer.pieces, answer.generated_tokens, answer.num_attempts) == ("", [], 0, 2)
