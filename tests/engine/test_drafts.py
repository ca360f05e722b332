"""Drafts change how many passes an answer takes, and nothing else of it, nor of what it leaves behind."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.drafters import PlantedDrafter, planted_drafting, random_drafting
from fakes.gates import PATIENCE_S
from fakes.models import FakeModel, FakeState, expected_logits, greedy_continuation
from whitedwarf.engine.draft_length import DraftLengths
from whitedwarf.engine.drafter import Guess
from whitedwarf.engine.drafts import Drafting
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.guide import FREE, Course
from whitedwarf.engine.request import GREEDY, Completion, Finished, FinishReason, GenerateOptions, SamplingOptions
from whitedwarf.engine.stops import ANSWER_STEP
from whitedwarf.model.base import Ids

VOCAB = 64
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
GREEDILY = GenerateOptions(max_tokens=40, sampling=GREEDY)


def truth(ids: Sequence[int], count: int) -> list[int]:
    return greedy_continuation(ids, count, VOCAB)


def model() -> FakeModel:
    return FakeModel(vocab_size=VOCAB, max_rollback=16)


def told_alike(completion: Completion) -> Completion:
    """But for the time it took, and what was guessed."""
    finished = replace(completion.finished, prefill_s=0, decode_s=0, drafted_tokens=0, accepted_tokens=0)
    return replace(completion, finished=finished)


def answers(drafting: Drafting | None, options: GenerateOptions, prompts: Sequence[Sequence[int]]) -> list[Completion]:
    with Engine(model(), drafting=drafting) as engine:
        generations = [engine.submit(prompt, options) for prompt in prompts]
        return [told_alike(generation.result(PATIENCE_S)) for generation in generations]


class Loose:
    """Sampling that any token may come of."""

    OPTIONS = SamplingOptions(temperature=2.0, min_p=0.0, seed=7)


@pytest.mark.parametrize("is_wrong", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sampling", [GREEDY, Loose.OPTIONS], ids=["greedy", "sampled"])
@pytest.mark.parametrize("logprobs", [None, 3])
def test_answers_are_those_without_drafts(is_wrong: float, sampling: SamplingOptions, logprobs: int | None) -> None:
    options = GenerateOptions(max_tokens=60, sampling=sampling, logprobs=logprobs)
    plain = answers(None, options, [PROMPT])
    assert answers(planted_drafting(truth, is_wrong), options, [PROMPT]) == plain
    assert answers(random_drafting(1), options, [PROMPT]) == plain


@given(
    prompts=st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30), min_size=1, max_size=4),
    is_wrong=st.floats(0, 1),
    seed=st.integers(0, 99),
    most=st.integers(1, 16),
    max_tokens=st.integers(0, 40),
    temperature=st.sampled_from([0.0, 1.0]),
    stops=st.frozensets(st.integers(0, VOCAB - 1), max_size=4),
)
def test_whoever_guesses_and_whatever_ends_them(
    prompts: list[list[int]],
    is_wrong: float,
    seed: int,
    most: int,
    max_tokens: int,
    temperature: float,
    stops: frozenset[int],
) -> None:
    options = GenerateOptions(max_tokens, stops, SamplingOptions(temperature, seed=seed))
    drafting = planted_drafting(truth, is_wrong, seed, most=most)
    assert answers(drafting, options, prompts) == answers(None, options, prompts)


@pytest.mark.parametrize("drafting", [random_drafting(1, 4), planted_drafting(lambda ids, count: [0] * count)])
def test_sampled_tokens_are_distributed_as_the_model_says(drafting: Drafting) -> None:
    """Chi squared over three tokens, the last of which may come of a draft; each answer has a seed of its own."""
    num_answers, prompt = 3000, [1, 2]
    counts, expected = np.zeros((4, 4, 4)), np.zeros((4, 4, 4))
    with Engine(FakeModel(vocab_size=4, max_rollback=16), drafting=drafting) as engine:
        for seed in range(1, num_answers + 1):
            sampling = SamplingOptions(temperature=1.5, min_p=0.0, seed=seed * 0x9E3779B97F4A7C15)
            ids = engine.submit(prompt, GenerateOptions(3, sampling=sampling)).result(PATIENCE_S).ids
            counts[tuple(ids)] += 1
    for ids in np.ndindex(4, 4, 4):
        chances = [softmax(expected_logits([*prompt, *ids[:i]], 4) / 1.5)[ids[i]] for i in range(3)]
        expected[ids] = num_answers * np.prod(chances)
    is_common = expected >= 5  # the rest is one cell
    observed = np.append(counts[is_common], counts[~is_common].sum())
    wanted = np.append(expected[is_common], expected[~is_common].sum())
    degrees = len(wanted) - 1
    chi_squared = ((observed - wanted) ** 2 / wanted).sum()
    assert chi_squared < degrees + 5 * np.sqrt(2 * degrees)  # above that less than once in 10,000


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def test_right_guesses_save_passes() -> None:
    plain, quick = model(), model()
    with Engine(plain) as engine:
        engine.submit(PROMPT, GREEDILY).result(PATIENCE_S)
    with Engine(quick, drafting=planted_drafting(truth, most=7)) as engine:
        engine.submit(PROMPT, GREEDILY).result(PATIENCE_S)
    assert len(plain.batches) == 40
    # the prompt; then 8 tokens a pass: 7 guessed and one more
    assert [rows for (rows,) in quick.batches] == [len(PROMPT), 8, 8, 8, 8, 7]


def test_what_was_guessed_and_right_is_counted() -> None:
    def never(ids: Sequence[int], count: int) -> list[int]:
        return [VOCAB - 1 - token for token in truth(ids, count)]

    right, wrong = finished_with(planted_drafting(truth, most=7)), finished_with(planted_drafting(never))
    assert (right.drafted_tokens, right.accepted_tokens) == (34, 34)  # of 40 tokens; each of 6 passes gave another one
    assert wrong.accepted_tokens == 0
    assert wrong.drafted_tokens == sum(min(16, 39 - generated) for generated in range(1, 40))


def finished_with(drafting: Drafting) -> Finished:
    with Engine(model(), drafting=drafting) as engine:
        return engine.submit(PROMPT, GREEDILY).result(PATIENCE_S).finished


@pytest.mark.parametrize("is_wrong", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("max_tokens", [5, 17, 40])
def test_a_session_is_what_it_would_have_been(is_wrong: float, max_tokens: int) -> None:
    left = []
    for drafting in (None, planted_drafting(truth, is_wrong)):
        with Engine(model(), drafting=drafting) as engine:
            session = engine.new_session()
            engine.submit(PROMPT, replace(GREEDILY, max_tokens=max_tokens), session=session).result(PATIENCE_S)
            saved = engine.snapshot(session)
            state = session.state
            assert isinstance(state, FakeState)
            assert saved.logits is not None
            left.append((session.ids, state.ids, state.rollback_room, saved.logits.tolist()))
    assert left[0] == left[1]


class Ending:
    """A guide that forbids nothing, wants a token greedily now and then, and ends the answer after some tokens."""

    def __init__(self, after: int) -> None:
        self.told: list[int] = []
        self._after = after

    course = FREE

    def mask(self) -> None:
        return None

    def accept(self, token: int) -> Course:
        self.told.append(token)
        return Course(is_greedy=len(self.told) % 3 == 0, is_over=len(self.told) == self._after)


@pytest.mark.parametrize("after", [1, 2, 9, 30])
def test_a_guide_hears_every_token_once_and_in_order(after: int) -> None:
    heard = []
    for drafting in (None, planted_drafting(truth, 0.3)):
        guide = Ending(after)
        with Engine(model(), drafting=drafting) as engine:
            options = GenerateOptions(max_tokens=40, sampling=SamplingOptions(seed=3))
            completion = engine.submit(PROMPT, options, guide=guide).result(PATIENCE_S)
        assert completion.ids == guide.told
        heard.append(told_alike(completion))
    assert heard[0] == heard[1]
    assert heard[0].finished.generated_tokens == after


def test_an_answer_is_remembered_where_it_would_have_been() -> None:
    prompt = list(np.random.default_rng(1).integers(0, VOCAB, ANSWER_STEP - 20))
    options = GenerateOptions(max_tokens=60, sampling=GREEDY)
    known = []
    for drafting in (None, planted_drafting(truth)):
        long = FakeModel(vocab_size=VOCAB, context_length=4 * ANSWER_STEP, max_rollback=16)
        with Engine(long, prefix_budget_bytes=10_000, drafting=drafting) as engine:
            answer = engine.submit(prompt, options).result(PATIENCE_S).ids
            # parts from the answer right behind its stop
            branch = [*prompt, *answer[:20], (answer[20] + 1) % VOCAB, 1, 2]
            known.append(engine.submit(branch, options).result(PATIENCE_S).finished.reused_tokens)
    assert known == [ANSWER_STEP, ANSWER_STEP]


def test_who_leaves_amid_drafts_leaves_a_true_session() -> None:
    fake = model()
    with Engine(fake, drafting=planted_drafting(truth, 0.5)) as engine:
        session = engine.new_session()
        options = GenerateOptions(max_tokens=900, sampling=GREEDY)
        generation = engine.submit(PROMPT, options, session=session)
        fake.before_forward = lambda spans: generation.cancel() if len(session.ids) > 30 else None
        completion = generation.result(PATIENCE_S)
    assert completion.finished.reason is FinishReason.CANCELLED
    assert session.ids == [*PROMPT, *completion.ids][: len(session.ids)]
    assert len(session.ids) >= len(PROMPT) + len(completion.ids) - 1


class Failing:
    def __init__(self, at: str) -> None:
        self._at = at
        if at == "make":
            raise ValueError("none")

    def told(self, ids: Sequence[int] | Ids) -> None:
        if self._at == "told":
            raise ValueError("deaf")

    def draft(self, most: int) -> Guess:
        raise ValueError("no idea")


@pytest.mark.parametrize("at", ["make", "told", "draft"])
def test_a_drafter_that_fails_costs_no_answer(at: str) -> None:
    assert answers(Drafting(lambda: Failing(at)), GREEDILY, [PROMPT]) == answers(None, GREEDILY, [PROMPT])


def test_drafts_leave_prompts_their_rows() -> None:
    fake = model()
    with Engine(fake, max_chunk_tokens=16, max_parallel=4, drafting=planted_drafting(truth)) as engine:
        first = engine.submit(PROMPT, replace(GREEDILY, max_tokens=400))
        next(iter(first))
        engine.submit(PROMPT * 20, GREEDILY).result(PATIENCE_S)
        first.cancel()
    assert all(sum(rows) <= 16 + 4 for rows in fake.batches)
    assert any(rows[0] > 1 and rows[1] == 16 for rows in fake.batches if len(rows) == 2)


def test_a_drafter_is_told_the_prompt_and_every_token() -> None:
    made: list[PlantedDrafter] = []

    def make() -> PlantedDrafter:
        made.append(PlantedDrafter(truth, 0.4))
        return made[-1]

    with Engine(model(), drafting=Drafting(make, lengths=DraftLengths())) as engine:
        ids = engine.submit(PROMPT, GREEDILY).result(PATIENCE_S).ids
    assert made[0].told_ids == [*PROMPT, *ids][: len(made[0].told_ids)]
    assert len(made[0].told_ids) >= len(PROMPT) + len(ids) - 17
