"""A long answer is remembered while it is written, and what is remembered goes to the store with its logits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fakes.gates import PATIENCE_S
from fakes.models import FAKE_SNAPSHOT_BYTES, FakeModel, expected_logits, greedy_continuation
from fakes.prefix_store import FakeStore
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.guide import Course, Mask
from whitedwarf.engine.prefix import SaveReason
from whitedwarf.engine.request import GREEDY, GenerateOptions, Reuse
from whitedwarf.engine.stops import ANSWER_STEP
from whitedwarf.kvstore.policy import Limits

VOCAB = 64
LOGITS_BYTES = 4 * VOCAB
ROOMY = 1000 * FAKE_SNAPSHOT_BYTES
INSIDE = Course(is_inside_call=True)


def model() -> FakeModel:
    return FakeModel(context_length=6000, max_rollback=16)


def prompt(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, length).tolist()


@dataclass
class Inside:
    """Says that the answer is in a call up to its n-th token."""

    until: int
    num_told: int = 0

    @property
    def course(self) -> Course:
        return INSIDE

    def mask(self) -> Mask | None:
        return None

    def accept(self, token: int) -> Course:
        self.num_told += 1
        return INSIDE if self.num_told <= self.until else Course()


def write(engine: Engine, ids: Sequence[int], count: int, guide: Inside | None = None) -> None:
    options = GenerateOptions(max_tokens=count, sampling=GREEDY)
    answer = engine.submit(ids, options, guide=guide).result(PATIENCE_S)
    assert answer.ids == greedy_continuation(ids, count, VOCAB)


def test_the_stores_steps_are_steps_of_an_answer() -> None:
    assert Limits().continued_step % ANSWER_STEP == 0


def test_a_long_answer_is_remembered_and_offered_on_its_way() -> None:
    store, ids = FakeStore(), prompt(ANSWER_STEP - 10)
    with Engine(model(), prefix_budget_bytes=ROOMY, store=store) as engine:
        write(engine, ids, 40)
        assert (ANSWER_STEP, SaveReason.CONTINUED) in store.reasons
        parting = [*ids, *greedy_continuation(ids, 10, VOCAB), *prompt(300, 1)]
        again = engine.submit(parting, GenerateOptions(max_tokens=0)).result(PATIENCE_S).finished
        assert (again.reuse, again.reused_tokens) == (Reuse.MEMORY, ANSWER_STEP)


def test_a_crash_in_an_answer_costs_a_step_of_it() -> None:
    store, ids = FakeStore(), prompt(ANSWER_STEP - 10)
    with Engine(model(), store=store) as engine:
        generation = engine.submit(ids, GenerateOptions(max_tokens=900, sampling=GREEDY))
        while (ANSWER_STEP, SaveReason.CONTINUED) not in store.reasons:
            assert generation.next_event(PATIENCE_S) is not None
        generation.cancel()
    with Engine(model(), store=store) as engine:
        longer = [*ids, *greedy_continuation(ids, 10, VOCAB), 1, 2]
        again = engine.submit(longer, GenerateOptions(max_tokens=0)).result(PATIENCE_S).finished
    assert (again.reuse, again.reused_tokens) == (Reuse.DISK, ANSWER_STEP)


def test_what_ends_inside_a_call_is_not_remembered() -> None:
    for until, is_offered in ((9, True), (10, False), (20, False)):
        store = FakeStore()
        with Engine(model(), store=store) as engine:
            write(engine, prompt(ANSWER_STEP - 10), 20, Inside(until))
        assert ((ANSWER_STEP, SaveReason.CONTINUED) in store.reasons) is is_offered


def test_every_offer_comes_with_the_logits_after_it() -> None:
    store, ids = FakeStore(), prompt(ANSWER_STEP - 10)
    budget_bytes = 6 * (FAKE_SNAPSHOT_BYTES + LOGITS_BYTES)
    with Engine(model(), prefix_budget_bytes=budget_bytes, store=store) as engine:
        write(engine, ids, 20)
        for seed in range(1, 8):
            write(engine, prompt(300, seed), 3)
        assert 0 < engine.prefix_stats.held_bytes <= budget_bytes
    assert {reason for _, reason in store.reasons} == set(SaveReason)
    for saved, logits in zip(store.offered, store.offered_logits, strict=True):
        assert logits is not None
        assert np.array_equal(logits, expected_logits(saved, VOCAB))


def test_logits_are_counted_and_only_kept_for_a_store() -> None:
    with Engine(model(), prefix_budget_bytes=ROOMY) as engine:
        write(engine, prompt(100), 3)
        without = engine.prefix_stats
    with Engine(model(), prefix_budget_bytes=ROOMY, store=FakeStore()) as engine:
        write(engine, prompt(100), 3)
        with_them = engine.prefix_stats
    assert with_them.num_checkpoints == without.num_checkpoints == 2
    assert with_them.held_bytes - without.held_bytes == 2 * LOGITS_BYTES


def test_a_prompt_that_was_cut_short_has_none_where_none_were_asked_for() -> None:
    store = FakeStore()
    with Engine(model(), max_chunk_tokens=100, prefix_budget_bytes=ROOMY, store=store) as engine:
        generation = engine.submit(prompt(5000), GenerateOptions(max_tokens=1))
        while (event := generation.next_event(PATIENCE_S)) is not None and getattr(event, "processed", 100) < 100:
            pass
        generation.cancel()
        end = generation.result(PATIENCE_S).finished
    for saved, logits in zip(store.offered, store.offered_logits, strict=True):
        assert logits is None or np.array_equal(logits, expected_logits(saved, VOCAB))
    assert end.generated_tokens <= 1
