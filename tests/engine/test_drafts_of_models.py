"""Real models with drafts: the tokens, the logits and the states of plain decoding, across every boundary.

Boundaries are the window of 128, compressed windows of 4 and 128, chunks, and where an answer is remembered (2048).
WHITEDWARF_DRAFT_TOKENS says how many greedy tokens are compared in all: 20000 takes some minutes.
"""

import functools
import os
from collections.abc import Sequence

import numpy as np
import pytest

from engine.bits import nano
from fakes.drafters import AllLengths, NoDrafter, planted_drafting, random_drafting
from oracle.fixtures import oracle_file
from whitedwarf.cli.loading import open_model
from whitedwarf.config import ModelSettings
from whitedwarf.engine.drafts import Drafting
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.ngram_drafter import NgramDrafter
from whitedwarf.engine.request import GREEDY, Completion, GenerateOptions, SamplingOptions, Token
from whitedwarf.engine.session import SessionSnapshot
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Model, Snapshot, Span
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.model.drafting import MtpDrafts
from whitedwarf.model.loading import load_mtp
from whitedwarf.model.saved_states import ArraysKind
from whitedwarf.model.transformer import Transformer
from whitedwarf.weights.store import bundled_model

NUM_TOKENS = int(os.environ.get("WHITEDWARF_DRAFT_TOKENS", "1200"))
PARALLEL = 4
PATIENCE_S = 1800
MODELS = ("nano", "tinyA/tiny-f32.gguf", "tinyQ/tiny-iq2.gguf")


@functools.cache
def model_of(name: str) -> DeepSeek:
    if name == "nano":
        return nano().transformer
    settings = ModelSettings(model=str(oracle_file(name)), context=4096, threads=1, backend="cpu")
    return open_model(settings).transformer


def prompts(model: Model, count: int) -> list[list[int]]:
    """Of lengths just below the boundaries."""
    random = np.random.default_rng(5)
    lengths = [1, 120, 250, 505, 2040, 30, 3, 127][:count]
    return [random.integers(0, min(4000, model.config.vocab_size), length).tolist() for length in lengths]


def answer_all(
    model: Model, asked: Sequence[Sequence[int]], options: GenerateOptions, drafting: Drafting | None
) -> list[Completion]:
    with Engine(model, max_parallel=PARALLEL, drafting=drafting) as engine:
        generations = [engine.submit(prompt, options) for prompt in asked]
        return [generation.result(PATIENCE_S) for generation in generations]


def truth_of(asked: Sequence[Sequence[int]], answers: Sequence[Completion]) -> "Truth":
    return Truth([(*prompt, *answer.ids) for prompt, answer in zip(asked, answers, strict=True)])


class Truth:
    """What follows the tokens of a known text, found by how it begins."""

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        self._texts = [tuple(text) for text in texts]

    def __call__(self, ids: Sequence[int], count: int) -> Sequence[int]:
        known = tuple(ids)
        for text in self._texts:
            if text[: len(known)] == known:
                return text[len(known) : len(known) + count]
        return ()


def block_drafting() -> Drafting:
    """Nano's own block, asked for up to 5 tokens each time."""
    main = model_of("nano")
    assert isinstance(main, Transformer)
    block = load_mtp(open_gguf(bundled_model().with_name("nano-mtp.gguf")), main)
    return Drafting(NoDrafter, 5, AllLengths(), MtpDrafts(block))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_greedy_answers_are_those_of_plain_decoding(name: str) -> None:
    model = model_of(name)
    asked = prompts(model, 8)
    options = GenerateOptions(max_tokens=max(24, NUM_TOKENS // (len(MODELS) * len(asked))), sampling=GREEDY)
    plain = answer_all(model, asked, options, None)
    vocab_size = model.config.vocab_size
    for drafting in (
        planted_drafting(truth_of(asked, plain), 0.3, vocab_size=vocab_size),
        random_drafting(2, vocab_size, most=5),
        Drafting(NgramDrafter),
        *([block_drafting()] if name == "nano" else []),
    ):
        drafted = answer_all(model, asked, options, drafting)
        assert [answer.ids for answer in drafted] == [answer.ids for answer in plain]


@pytest.mark.parametrize("name", MODELS[:2])
def test_logits_and_sampled_tokens_are_the_same_bits(name: str) -> None:
    model = model_of(name)
    asked = prompts(model, 4)
    options = GenerateOptions(40, sampling=SamplingOptions(1.0, min_p=0.0, seed=11), logprobs=16)
    plain = answer_all(model, asked, options, None)
    drafting = planted_drafting(truth_of(asked, plain), 0.3, vocab_size=model.config.vocab_size)
    drafted = answer_all(model, asked, options, drafting)
    assert tokens_of(drafted) == tokens_of(plain)


def tokens_of(answers: Sequence[Completion]) -> list[tuple[Token, ...]]:
    return [answer.tokens for answer in answers]


@pytest.mark.parametrize("kind", ["plain", "packed"])
@pytest.mark.parametrize("is_wrong", [0.0, 0.4, 1.0])
def test_the_state_is_that_of_plain_decoding(is_wrong: float, kind: ArraysKind) -> None:
    model = model_of("nano")
    (asked,) = prompts(model, 4)[1:2]
    left: list[SessionSnapshot] = []
    plain: list[Completion] = []
    for drafted in (False, True):
        drafting = planted_drafting(truth_of([asked], plain), is_wrong, vocab_size=4000) if drafted else None
        with Engine(model, drafting=drafting) as engine:
            session = engine.new_session()
            options = GenerateOptions(max_tokens=30, sampling=GREEDY)
            plain.append(engine.submit(asked, options, session=session).result(PATIENCE_S))
            left.append(engine.snapshot(session))
    first, second = left
    assert first.ids.tolist() == second.ids.tolist()
    assert first.state is not None
    assert second.state is not None
    assert first.state.rollback_room == second.state.rollback_room
    assert first.logits is not None
    assert second.logits is not None
    assert (first.logits == second.logits).all()
    assert saved_bytes(model, kind, first.state) == saved_bytes(model, kind, second.state)


def saved_bytes(model: DeepSeek, kind: ArraysKind, state: Snapshot) -> list[list[bytes]]:
    return [[array.tobytes() for array in layer] for layer in model.state_arrays(kind).of(state)]


def test_most_of_what_the_block_of_nano_guesses_is_right() -> None:
    with Engine(model_of("nano"), drafting=block_drafting()) as engine:
        finished = engine.submit([300, 400, 500], GenerateOptions(100, sampling=GREEDY)).result(PATIENCE_S).finished
    assert finished.drafted_tokens > 50
    assert finished.accepted_tokens > finished.drafted_tokens / 3


def test_what_was_taken_back_leaves_the_room_there_was() -> None:
    model = model_of("nano")
    plain, drafted = model.new_state(), model.new_state()
    ids = np.arange(100, 140, dtype=np.int32)
    for state in (plain, drafted):
        model.forward([Span(state, ids[:30], "none")])
    model.forward([Span(plain, ids[30:31])])
    model.forward([Span(drafted, ids[30:40], "all")])
    drafted.take_back(9)
    assert (drafted.position, drafted.rollback_room) == (plain.position, plain.rollback_room)
    for state in (plain, drafted):
        state.rollback(state.rollback_room)
    assert drafted.position == plain.position
    with pytest.raises(ValueError, match="short pass"):
        drafted.take_back(1)
    model.forward([Span(drafted, np.resize(ids, 100), "none")])
    with pytest.raises(ValueError, match="short pass"):
        drafted.take_back(1)


@pytest.mark.parametrize("is_saved", [False, True])
def test_turns_that_go_on_where_the_block_has_seen_nothing_are_those_of_plain_decoding(is_saved: bool) -> None:
    """A second turn begins from a checkpoint, a third in a session that may have been saved and restored."""
    model = model_of("nano")
    (asked,) = prompts(model, 3)[2:3]
    options = GenerateOptions(max_tokens=40, sampling=GREEDY)
    told: list[list[list[int]]] = []
    for drafting in (None, block_drafting()):
        with Engine(model, prefix_budget_bytes=64 << 20, drafting=drafting) as engine:
            first = engine.submit(asked, options).result(PATIENCE_S)
            longer = [*asked, *first.ids, 700, 800, 900]
            second = engine.submit(longer, options).result(PATIENCE_S)
            assert second.finished.reused_tokens > 0
            session = engine.new_session()
            third = engine.submit([*longer, *second.ids, 5], options, session=session).result(PATIENCE_S)
            if is_saved:
                session = engine.new_session(engine.snapshot(session))
            fourth = engine.submit([*session.ids, 77, 78], options, session=session).result(PATIENCE_S)
            assert fourth.finished.reused_tokens > len(longer)
            told.append([list(answer.ids) for answer in (first, second, third, fourth)])
            drafted = sum(answer.finished.drafted_tokens for answer in (second, third, fourth))
            assert (drafted > 0) == (drafting is not None)
    assert told[0] == told[1]
