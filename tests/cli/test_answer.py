"""The chat's turns with a fake model, in this process: what is kept, what is taken back."""

import io
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from fakes.models import FakeModel, greedy_continuation
from whitedwarf.cli.answer import generate_options, show_answer
from whitedwarf.cli.repl import Repl
from whitedwarf.config import SamplingSettings
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.engine import Engine
from whitedwarf.errors import BackendError
from whitedwarf.model.base import Span
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

GREEDY = SamplingSettings(temperature=0.0, max_tokens=5)


@dataclass
class FakeLoaded:
    model: FakeModel
    chunk_tokens: int = 4

    @property
    def context_length(self) -> int:
        return self.model.config.context_length

    def engine(self) -> Engine:
        return Engine(self.model, max_chunk_tokens=self.chunk_tokens, max_parallel=1)

    def expert_counts(self) -> dict[str, float]:
        return {}


class Interruption:
    """Sends Ctrl+C to this process when the model is about to run its n-th pass."""

    def __init__(self, at_pass: int) -> None:
        self.countdown = at_pass

    def __call__(self, spans: Sequence[Span]) -> None:
        self.countdown -= 1
        if self.countdown == 0:
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGINT)
            threading.Event().wait(0.2)  # the pass goes on; the request is cancelled after it


class Failure:
    def __init__(self) -> None:
        self.is_on = True

    def __call__(self, spans: Sequence[Span]) -> None:
        if self.is_on:
            raise BackendError("the device is gone")


def chat(model: FakeModel, tokenizer: Tokenizer) -> Repl:
    return Repl(FakeLoaded(model), tokenizer, "", Thinking.NONE, GREEDY)  # type: ignore[arg-type]


def fake(tokenizer: Tokenizer, **options: object) -> FakeModel:
    return FakeModel(vocab_size=tokenizer.vocab_size, **options)  # type: ignore[arg-type]


def turns(repl: Repl) -> list[int]:
    return list(repl._transcript._turns)


def test_a_turn_is_kept_and_closed(nano_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    repl = chat(fake(nano_tokenizer), nano_tokenizer)
    repl._obey("hello")
    assert turns(repl)[0] == nano_tokenizer.special_id(SpecialToken.USER)
    assert turns(repl)[-1] == nano_tokenizer.special_id(SpecialToken.EOS)
    assert len(turns(repl)) == 1 + len(nano_tokenizer.encode("hello")) + 2 + 5 + 1
    assert capsys.readouterr().out.endswith("\n")


def test_the_next_turn_reads_only_what_is_new(nano_tokenizer: Tokenizer) -> None:
    model = fake(nano_tokenizer, max_rollback=16)
    repl = chat(model, nano_tokenizer)
    repl._obey("hello")
    before = model.rows
    repl._obey("again")
    assert model.rows - before <= 1 + len(nano_tokenizer.encode("again")) + 2 + 1 + 1 + 5
    assert model.num_states == 1


def test_an_interruption_before_the_first_token_takes_the_turn_back(nano_tokenizer: Tokenizer) -> None:
    repl = chat(fake(nano_tokenizer, before_forward=Interruption(at_pass=1)), nano_tokenizer)
    repl._obey("a rather long message that needs several chunks of four tokens")
    assert turns(repl) == []
    repl._obey("hello")
    assert nano_tokenizer.decode(turns(repl)).startswith("<｜User｜>hello<｜Assistant｜></think>")


def test_an_interrupted_answer_is_kept_as_far_as_it_came(nano_tokenizer: Tokenizer) -> None:
    prompt_passes = -(-(2 + len(nano_tokenizer.encode("hi")) + 2) // 4)
    repl = chat(fake(nano_tokenizer, before_forward=Interruption(at_pass=prompt_passes + 2)), nano_tokenizer)
    repl._obey("hi")
    kept = turns(repl)
    assert kept[-1] == nano_tokenizer.special_id(SpecialToken.EOS)
    num_answer = len(kept) - (1 + len(nano_tokenizer.encode("hi")) + 2) - 1
    assert 1 <= num_answer < 5


class SlowScreen(io.StringIO):
    """Takes its first text only when the model has run `num_passes`, and is then interrupted."""

    def __init__(self, model: FakeModel, num_passes: int) -> None:
        super().__init__()
        self._model, self._num_passes = model, num_passes

    def write(self, text: str) -> int:
        if self._num_passes:
            while len(self._model.batches) < self._num_passes:
                threading.Event().wait(0.01)
            self._num_passes = 0
            raise KeyboardInterrupt
        return super().write(text)


def test_an_interrupted_answer_holds_also_what_was_not_shown_yet(
    nano_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, prompt = fake(nano_tokenizer), nano_tokenizer.encode("hi")
    expected = greedy_continuation(prompt, 5, nano_tokenizer.vocab_size)
    screen = SlowScreen(model, num_passes=4)
    monkeypatch.setattr("sys.stdout", screen)
    options = generate_options(GREEDY, nano_tokenizer)
    with Engine(model) as engine:
        answer = show_answer(engine, nano_tokenizer, prompt, options)
    assert len(answer.ids) >= 3  # one may still be on its way when the fourth pass is counted
    assert list(answer.ids) == expected[: len(answer.ids)]
    assert len(answer.ids) == answer.finished.generated_tokens
    assert nano_tokenizer.decode(answer.ids[1:]) in screen.getvalue()  # the first met the interruption itself


def test_a_failure_takes_the_turn_back_and_the_chat_goes_on(
    nano_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = Failure()
    repl = chat(fake(nano_tokenizer, before_forward=failure), nano_tokenizer)
    repl._obey("hello")
    assert turns(repl) == []
    assert "whitedwarf: the device is gone" in capsys.readouterr().err
    failure.is_on = False
    repl._obey("hello")
    assert turns(repl)


def test_the_budget_is_what_the_context_leaves(nano_tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]) -> None:
    prompt = nano_tokenizer.encode("some words that fill the context")
    options = generate_options(SamplingSettings(temperature=0.0), nano_tokenizer)
    with Engine(fake(nano_tokenizer, context_length=len(prompt) + 3)) as engine:
        assert len(show_answer(engine, nano_tokenizer, prompt, options).ids) == 2
    with Engine(fake(nano_tokenizer, context_length=len(prompt) + 1)) as engine:
        assert show_answer(engine, nano_tokenizer, prompt, options).ids == ()
