"""Examining the engine in this process."""

from collections.abc import Sequence

import anyio
import pytest

from evals.answering import FACTS, letters
from fakes.models import FakeModel
from fakes.scripted_server import TOKENIZER
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import Event, Finished, FinishReason, GenerateOptions, Prefilled, Token
from whitedwarf.evals.answer import Answer, Piece
from whitedwarf.evals.budget import CloseKind, Limits
from whitedwarf.evals.exam import Exam, Phase
from whitedwarf.evals.grade import ThinkMode
from whitedwarf.evals.target import Asking, NoMoreQuestionsError
from whitedwarf.evals.target_engine import EngineTarget, _Saying, prompt_ids
from whitedwarf.prompt.special import SpecialToken

(CASE, OTHER) = letters("a", "b")
CLOSE = TOKENIZER.special_id(SpecialToken.THINK_CLOSE)
FREE = Limits(0, 0, 0)


def asking(max_tokens: int = 40, thinking: ThinkMode = "high") -> Asking:
    return Asking(max_tokens, 0.0, 1.0, 0.05, 1, thinking)


def engine(context_length: int = 4000, delay_s: float = 0.0) -> Engine:
    return Engine(FakeModel(vocab_size=TOKENIZER.vocab_size, context_length=context_length, delay_s=delay_s))


def target(running: Engine, thinking: ThinkMode = "high", limits: Limits = FREE) -> EngineTarget:
    return EngineTarget(running, TOKENIZER, FACTS, thinking, limits)


def asked(running: Engine, how: Asking, limits: Limits = FREE) -> Answer:
    answer = Answer()
    anyio.run(target(running, how.thinking, limits).ask, CASE, how, answer)
    return answer


def test_a_prompt_opens_thoughts_or_closes_them() -> None:
    assert prompt_ids(CASE, "high", TOKENIZER)[-1] == TOKENIZER.special_id(SpecialToken.THINK_OPEN)
    assert prompt_ids(CASE, "none", TOKENIZER)[-1] == CLOSE
    assert len(prompt_ids(CASE, "max", TOKENIZER)) > len(prompt_ids(CASE, "high", TOKENIZER))


def test_thoughts_close_where_the_limit_says_and_the_output_has_the_tag_there() -> None:
    with engine() as running:
        answer = asked(running, asking(), Limits(soft=0, hard=10, rank=0))
    assert answer.generated_tokens == 40
    assert answer.is_cut
    assert (answer.closed.kind, answer.closed.token_index, answer.closed.remaining) == (CloseKind.HARD, 30, 10)
    assert answer.text.count("</think>") == 1
    assert {piece.is_thinking for piece in answer.pieces} == {True, False}
    assert answer.prompt_tokens == answer.read_tokens == len(prompt_ids(CASE, "high", TOKENIZER))


def test_without_thoughts_nothing_is_closed() -> None:
    with engine() as running:
        answer = asked(running, asking(thinking="none"), Limits(soft=100, hard=100, rank=3))
    assert answer.closed.kind is CloseKind.NONE
    assert answer.think_mode == "none"
    assert not any(piece.is_thinking for piece in answer.pieces)


def said(events: Sequence[Event], thinking: ThinkMode = "high") -> Answer:
    answer = Answer()
    answer.think_mode = thinking
    saying = _Saying(answer, TOKENIZER, CLOSE)
    assert saying.take(events)
    return answer


def tokens(text: str) -> list[Event]:
    return [Token(token) for token in TOKENIZER.encode(text)]


END = Finished(FinishReason.STOP, 7, 3)


def test_characters_in_several_tokens_come_whole_and_bytes_are_kept() -> None:
    text = "naïve \N{SNOWMAN} \U0001f600!"
    answer = said([Prefilled(7, 7), *tokens(text), Token(CLOSE), *tokens(text), END])
    assert answer.output == f"{text}</think>{text}".encode()
    assert "".join(piece.text for piece in answer.pieces if piece.is_thinking) == text
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(piece.text for piece in answer.pieces)


def test_half_a_character_at_the_end_is_shown_as_one_and_kept_as_bytes() -> None:
    *most, last = tokens("a\N{SNOWMAN}\U0001f9ff")  # nano's vocabulary has no token for it
    assert TOKENIZER.token_bytes(last.id) != "\U0001f9ff".encode()
    answer = said([*most, END])
    assert answer.output.startswith(b"a")
    assert answer.output in "a\N{SNOWMAN}\U0001f9ff".encode()
    assert answer.pieces[-1] == Piece("\N{REPLACEMENT CHARACTER}", True)


def test_a_tag_in_the_answer_is_only_text() -> None:
    answer = said([Token(CLOSE), *tokens("B"), Token(CLOSE), END])
    assert answer.text == "</think>B</think>"
    assert "".join(piece.text for piece in answer.pieces) == "B</think>"


def test_a_prompt_without_room_is_skipped() -> None:
    length = len(prompt_ids(CASE, "high", TOKENIZER))
    with engine(length + 1) as running:
        why = target(running).why_skipped(CASE)
        assert why is not None
        assert f"of {length} tokens leaves no room in the context of {length + 1}" in why
    with engine(length + 2) as running:
        assert target(running).why_skipped(CASE) is None
        assert asked(running, asking()).generated_tokens == 1


def test_an_engine_that_is_gone_ends_the_exam() -> None:
    running = engine()
    running.close()
    with pytest.raises(NoMoreQuestionsError, match=r"closed|shutting down"):
        asked(running, asking())


def test_what_had_come_stays_when_it_is_stopped_and_the_engine_is_free_again() -> None:
    with engine(delay_s=0.005) as running:
        exam = Exam((CASE, OTHER), target(running), asking(3000))

        async def main() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(exam.run)
                with anyio.fail_after(60):
                    while exam.seats[0].answer.generated_tokens < 5:
                        await anyio.sleep(0.005)
                exam.stop()

        anyio.run(main)
        assert exam.seats[0].phase is Phase.STOPPED
        assert exam.seats[0].answer.generated_tokens >= 5
        assert exam.seats[0].answer.output
        assert running.submit([1, 2, 3], GenerateOptions(1)).result(20).ids


def test_a_pause_holds_all_answers() -> None:
    with engine(delay_s=0.002) as running:
        exam = Exam((CASE, OTHER), target(running), asking(60), parallel=2)

        async def main() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(exam.run)
                with anyio.fail_after(60):
                    while min(seat.answer.generated_tokens for seat in exam.seats) < 3:
                        await anyio.sleep(0.002)
                exam.pause(True)
                await anyio.sleep(0.1)
                before = [seat.answer.generated_tokens for seat in exam.seats]
                await anyio.sleep(0.2)
                assert before == [seat.answer.generated_tokens for seat in exam.seats]
                exam.pause(False)

        anyio.run(main)
        assert [seat.answer.generated_tokens for seat in exam.seats] == [60, 60]
