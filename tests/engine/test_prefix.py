"""Requests without a session: what they reuse of each other, what they must not, and what is kept for that."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fakes.gates import PATIENCE_S, Gate
from fakes.models import FAKE_SNAPSHOT_BYTES, FakeModel, FakeSnapshot, greedy_continuation
from fakes.prefix_store import FakeStore
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.prefix import SaveReason
from whitedwarf.engine.request import (
    GREEDY,
    Completion,
    Finished,
    FinishReason,
    GenerateOptions,
    MissReason,
    Prefilled,
    Reuse,
)
from whitedwarf.errors import BackendError, UsageError
from whitedwarf.model.base import Snapshot, Span

ROOMY = 1000 * FAKE_SNAPSHOT_BYTES
LOGITS_BYTES = 4 * 64
ROLLBACK = 16


def model(**others: object) -> FakeModel:
    return FakeModel(**{"context_length": 6000, "max_rollback": ROLLBACK, **others})  # type: ignore[arg-type]


def prompt(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 64, length).tolist()


def ask(engine: Engine, ids: Sequence[int], count: int = 3, checkpoints: tuple[int, ...] = ()) -> Completion:
    options = GenerateOptions(max_tokens=count, sampling=GREEDY, checkpoints=checkpoints)
    completion = engine.submit(ids, options).result(PATIENCE_S)
    assert completion.ids == greedy_continuation(ids, count, 64)
    return completion


def reused(completion: Completion) -> tuple[Reuse, int]:
    return completion.finished.reuse, completion.finished.reused_tokens


def test_without_a_budget_nothing_is_kept() -> None:
    with Engine(model()) as engine:
        ask(engine, prompt(300))
        again = ask(engine, prompt(300))
        assert engine.prefix_stats.num_checkpoints == 0
    assert reused(again) == (Reuse.NONE, 0)
    assert again.finished.miss_reason is MissReason.OFF


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(UsageError, match="prefix_budget_bytes"):
        Engine(model(), prefix_budget_bytes=-1)


def test_a_regenerated_answer_computes_one_token_of_its_prompt() -> None:
    fake = model()
    with Engine(fake, prefix_budget_bytes=ROOMY) as engine:
        ask(engine, prompt(500), 40)
        rows = fake.rows
        again = ask(engine, prompt(500), 40)
    assert reused(again) == (Reuse.MEMORY, 499)
    assert fake.rows - rows == 1 + 39
    assert again.finished.miss_reason is None


def test_the_next_turn_goes_on_with_the_live_state() -> None:
    fake = model()
    with Engine(fake, prefix_budget_bytes=ROOMY) as engine:
        first = ask(engine, prompt(100), 20)
        states = fake.num_states
        second = ask(engine, [*prompt(100), *first.ids, 7, 8, 9])
    assert reused(second) == (Reuse.LIVE, 119)  # the last token was drawn, not run
    assert fake.num_states == states


def test_two_turns_from_one_answer_both_reuse_it() -> None:
    with Engine(model(), prefix_budget_bytes=ROOMY) as engine:
        base = [*prompt(100), *ask(engine, prompt(100), 20).ids]
        found = [reused(ask(engine, [*base, *prompt(50, seed)])) for seed in (1, 2, 3)]
    assert found == [(Reuse.LIVE, 119), (Reuse.MEMORY, 119), (Reuse.MEMORY, 119)]


def test_an_answer_that_is_rendered_anew_keeps_all_before_it() -> None:
    with Engine(model(), prefix_budget_bytes=ROOMY) as engine:
        ask(engine, prompt(400), 60)
        rewritten = ask(engine, [*prompt(395), 1, 2, 3, *prompt(90, seed=5)])
    assert reused(rewritten) == (Reuse.MEMORY, 395)


@pytest.mark.parametrize(("shared", "least"), [(300, 256), (2048, 1920), (2047, 1536)])
def test_prompts_that_only_begin_alike_share_their_beginning(shared: int, least: int) -> None:
    with Engine(model(), prefix_budget_bytes=ROOMY) as engine:
        for seed in (1, 2):
            last = ask(engine, [*prompt(shared), *prompt(900, seed)])
        third = ask(engine, [*prompt(shared), *prompt(900, 3)])
    assert last.finished.reused_tokens >= least
    assert third.finished.reused_tokens >= shared - 63  # the second left a checkpoint where it parted from the first


def test_the_end_of_a_message_is_remembered_when_the_request_names_it() -> None:
    with Engine(model(), prefix_budget_bytes=ROOMY) as engine:
        ask(engine, prompt(200), checkpoints=(120, 900))
        edited = ask(engine, [*prompt(120), *prompt(80, seed=1)])
    assert reused(edited) == (Reuse.MEMORY, 120)


def test_a_negative_checkpoint_is_refused() -> None:
    with pytest.raises(UsageError, match="checkpoints"):
        GenerateOptions(checkpoints=(5, -1))


def test_a_miss_has_a_reason() -> None:
    with Engine(model(), prefix_budget_bytes=ROOMY) as engine:
        reasons = [
            ask(engine, ids).finished.miss_reason
            for ids in (prompt(200), prompt(200, seed=1), [*prompt(150), *prompt(50, seed=2)])
        ]
        assert dict(engine.prefix_stats.misses) == dict.fromkeys(reasons, 1)
    assert reasons == [MissReason.EMPTY, MissReason.UNKNOWN_PREFIX, MissReason.NO_CHECKPOINT]


def test_interleaved_conversations_do_not_disturb_each_other() -> None:
    with Engine(model(), prefix_budget_bytes=ROOMY) as engine:
        talks = [prompt(100, seed) for seed in range(12)]
        for turn in range(3):
            for seed, talk in enumerate(talks):
                completion = ask(engine, talk, 5)
                assert turn == 0 or completion.finished.reused_tokens == len(talk) - 10 - 1
                talk += [*completion.ids, *prompt(10, 100 * turn + seed)]


def test_after_a_cancel_the_same_prompt_goes_on_from_the_last_chunk() -> None:
    gate = Gate()
    with Engine(model(before_forward=gate), max_chunk_tokens=100, prefix_budget_bytes=ROOMY) as engine:
        generation = engine.submit(prompt(450))
        gate.let_through(2)
        gate.wait_for_pass(3)
        generation.cancel()
        gate.open()
        assert generation.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
        assert reused(ask(engine, prompt(450))) == (Reuse.LIVE, 256)


def test_after_a_failure_its_state_is_not_used() -> None:
    fake = model()
    with Engine(fake, max_chunk_tokens=256, prefix_budget_bytes=ROOMY) as engine:

        def fail(spans: Sequence[Span]) -> None:
            if len(fake.batches) == 1:
                raise RuntimeError("once")

        fake.before_forward = fail
        with pytest.raises(BackendError, match="once"):
            engine.submit(prompt(450)).result(PATIENCE_S)
        fake.before_forward = None
        assert reused(ask(engine, prompt(450))) == (Reuse.MEMORY, 256)


def test_a_session_neither_gives_nor_takes() -> None:
    options = GenerateOptions(max_tokens=3, sampling=GREEDY)
    with Engine(model(), prefix_budget_bytes=ROOMY) as engine:
        ask(engine, prompt(300))
        session = engine.new_session()
        assert reused(engine.submit(prompt(300), options, session=session).result(PATIENCE_S)) == (Reuse.NONE, 0)
        ids = prompt(300, seed=1)
        engine.submit(ids, options, session=session).result(PATIENCE_S)
        assert reused(ask(engine, ids)) == (Reuse.NONE, 0)


def test_progress_counts_what_was_reused() -> None:
    with Engine(model(), prefix_budget_bytes=ROOMY) as engine:
        ask(engine, prompt(200))
        events = list(engine.submit([*prompt(200), *prompt(30, 1)], GenerateOptions(max_tokens=0)))
    assert events[:2] == [Prefilled(200, 230), Prefilled(230, 230)]
    assert isinstance(events[-1], Finished)


def test_a_tight_budget_keeps_ends_rather_than_the_insides_of_runs() -> None:
    with Engine(model(), prefix_budget_bytes=4 * FAKE_SNAPSHOT_BYTES) as engine:
        ask(engine, prompt(5000), 1)
        assert engine.prefix_stats.held_bytes <= 4 * FAKE_SNAPSHOT_BYTES
        assert reused(ask(engine, prompt(5000), 1))[1] == 4999


def test_what_a_request_came_from_outlives_its_own_checkpoints() -> None:
    gate = Gate()
    gate.open()
    with Engine(model(before_forward=gate), prefix_budget_bytes=2 * FAKE_SNAPSHOT_BYTES) as engine:
        ask(engine, prompt(100), 0)
        ask(engine, [*prompt(100), *prompt(3000, 1)], 0)
        assert reused(ask(engine, [*prompt(100), *prompt(50, 2)], 0))[1] >= 100


def test_a_model_without_memory_for_a_checkpoint_still_answers() -> None:
    fake = model()
    make = fake.new_state

    def new_state():  # type: ignore[no-untyped-def]
        state = make()
        state.snapshot = _no_memory
        return state

    fake.new_state = new_state  # type: ignore[method-assign]
    with Engine(fake, prefix_budget_bytes=ROOMY) as engine:
        ask(engine, prompt(100))
        assert engine.prefix_stats.num_checkpoints == 0


def _no_memory() -> Snapshot:
    raise MemoryError


def test_after_a_restart_the_store_gives_what_memory_lost() -> None:
    store = FakeStore()
    with Engine(model(), prefix_budget_bytes=ROOMY, store=store) as engine:
        ask(engine, prompt(400))
    assert store.reasons == [(256, SaveReason.COLD), (400, SaveReason.COLD), (402, SaveReason.SHUTDOWN)]
    with Engine(model(), prefix_budget_bytes=ROOMY, store=store) as engine:
        second = ask(engine, [*prompt(400), *prompt(30, 1)])
        third = ask(engine, [*prompt(400), *prompt(30, 2)])
    assert reused(second) == (Reuse.DISK, 400)
    assert reused(third) == (Reuse.MEMORY, 400)
    assert (430, SaveReason.CONTINUED) in store.reasons
    assert store.threads == {"whitedwarf-engine"}


def test_a_store_serves_without_memory_too() -> None:
    store = FakeStore()
    with Engine(model(), store=store) as engine:
        ask(engine, prompt(400))
        assert reused(ask(engine, [*prompt(400), 1])) == (Reuse.DISK, 400)


def test_a_few_tokens_more_are_not_worth_a_file() -> None:
    store = FakeStore()
    with Engine(model(), prefix_budget_bytes=ROOMY, store=store) as engine:
        ask(engine, prompt(300))
        store.saved[tuple(prompt(340))] = FakeSnapshot(tuple(prompt(340)))
        assert reused(ask(engine, prompt(350))) == (Reuse.LIVE, 300)
        store.saved[tuple(prompt(500))] = FakeSnapshot(tuple(prompt(500)))
        assert reused(ask(engine, prompt(520))) == (Reuse.DISK, 500)


def test_loading_comes_before_what_it_pushes_out() -> None:
    """demand.md P14: saving must not take the place of what the next request needs."""
    store = FakeStore()
    with Engine(model(), prefix_budget_bytes=FAKE_SNAPSHOT_BYTES + LOGITS_BYTES, store=store) as engine:
        for seed in (0, 1):
            ask(engine, prompt(200, seed), 0)
        again = ask(engine, [*prompt(200), *prompt(20, 2)], 0)
    assert reused(again) == (Reuse.DISK, 200)


def test_what_leaves_memory_is_offered_to_the_store() -> None:
    store = FakeStore()
    with Engine(model(), prefix_budget_bytes=2 * (FAKE_SNAPSHOT_BYTES + LOGITS_BYTES), store=store) as engine:
        for seed in range(3):
            ask(engine, prompt(100, seed), 0)
        assert (100, SaveReason.EVICT) in store.reasons


def test_a_broken_store_costs_no_request() -> None:
    store = FakeStore()
    store.is_broken = True
    with Engine(model(), prefix_budget_bytes=ROOMY, store=store) as engine:
        ask(engine, prompt(300))
        assert ask(engine, prompt(300)).finished.reused_tokens == 299


class Conversations(RuleBasedStateMachine):
    """Any prompts, continuations, edits and cancels: right tokens, reuse that is possible, a budget that holds.

    Kept aside: every sequence that was ever run, and how many rows the model ran. How far a cancelled answer came is a
    matter of time, so no example is made from that.
    """

    @property
    def budget_bytes(self) -> int:
        return 7 * FAKE_SNAPSHOT_BYTES

    def __init__(self) -> None:
        super().__init__()
        self.fake = model(max_rollback=4)
        self.engine = Engine(self.fake, max_chunk_tokens=8, prefix_budget_bytes=self.budget_bytes)
        self.run_before: list[list[int]] = []
        self.cancelled: list[list[int]] = []

    def teardown(self) -> None:
        self.engine.close()

    @rule(ids=st.lists(st.integers(0, 2), min_size=1, max_size=40), count=st.integers(0, 5))
    def begin(self, ids: list[int], count: int) -> None:
        self._ask(ids, count)

    @precondition(lambda self: self.run_before)
    @rule(data=st.data(), added=st.lists(st.integers(0, 2), min_size=0, max_size=300), count=st.integers(0, 5))
    def edit_or_continue(self, data: st.DataObject, added: list[int], count: int) -> None:
        earlier = data.draw(st.sampled_from(self.run_before))
        ids = [*earlier[: data.draw(st.integers(0, len(earlier)))], *added][:5000]
        if ids:
            self._ask(ids, count, (data.draw(st.integers(0, len(ids))),))

    @precondition(lambda self: self.run_before)
    @rule(data=st.data(), added=st.lists(st.integers(0, 2), min_size=1, max_size=40))
    def cancel(self, data: st.DataObject, added: list[int]) -> None:
        ids = [*data.draw(st.sampled_from(self.run_before)), *added][:5000]
        generation = self.engine.submit(ids, GenerateOptions(max_tokens=50, sampling=GREEDY))
        generation.next_event(PATIENCE_S)
        generation.cancel()
        completion = generation.result(PATIENCE_S)
        assert completion.ids == greedy_continuation(ids, len(completion.ids), 64)
        self.run_before.append(ids)
        self.cancelled.append(ids + completion.ids)

    @precondition(lambda self: len(self.run_before) > 1)
    @rule(data=st.data(), counts=st.lists(st.integers(0, 6), min_size=2, max_size=4))
    def ask_side_by_side(self, data: st.DataObject, counts: list[int]) -> None:
        prompts = [[*data.draw(st.sampled_from(self.run_before)), 1][-5000:] for _ in counts]
        generations = [
            self.engine.submit(ids, GenerateOptions(max_tokens=count, sampling=GREEDY))
            for ids, count in zip(prompts, counts, strict=True)
        ]
        for ids, count, generation in zip(prompts, counts, generations, strict=True):
            answer = generation.result(PATIENCE_S).ids
            assert answer == greedy_continuation(ids, count, 64)
            self.run_before.append(ids + answer)

    @invariant()
    def the_budget_holds(self) -> None:
        stats = self.engine.prefix_stats
        assert 0 <= stats.held_bytes <= self.budget_bytes
        assert stats.held_bytes == FAKE_SNAPSHOT_BYTES * (stats.num_checkpoints + stats.num_live)

    def _ask(self, ids: list[int], count: int, checkpoints: tuple[int, ...] = ()) -> None:
        rows = self.fake.rows
        completion = ask(self.engine, ids, count, checkpoints)
        num_reused = completion.finished.reused_tokens
        seen = (*self.run_before, *self.cancelled)
        assert num_reused <= min(len(ids) - 1, max((_common(ids, other) for other in seen), default=0))
        assert self.fake.rows - rows == len(ids) - num_reused + max(count - 1, 0)
        self.run_before.append(ids + completion.ids)


class RoomyConversations(Conversations):
    """With room for everything, no prompt is computed twice."""

    @property
    def budget_bytes(self) -> int:
        return 100_000 * FAKE_SNAPSHOT_BYTES

    @precondition(lambda self: self.run_before)
    @rule(data=st.data())
    def regenerate(self, data: st.DataObject) -> None:
        ids = data.draw(st.sampled_from(self.run_before))
        ask(self.engine, ids, 0)
        assert ask(self.engine, ids, 3).finished.reused_tokens == len(ids) - 1


def _common(one: list[int], other: list[int]) -> int:
    shorter = min(len(one), len(other))
    return next((n for n in range(shorter) if one[n] != other[n]), shorter)


TestConversations = Conversations.TestCase
TestConversations.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestRoomyConversations = RoomyConversations.TestCase
TestRoomyConversations.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
