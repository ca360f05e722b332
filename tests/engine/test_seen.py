"""What a request is told of earlier prompts that began like it: how long, and how they went on."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fakes.gates import PATIENCE_S
from fakes.models import FAKE_SNAPSHOT_BYTES, FakeModel
from fakes.prefix_store import FakeStore
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import Finished, GenerateOptions
from whitedwarf.engine.session import Session

ROOMY = 1000 * FAKE_SNAPSHOT_BYTES
READ_ONLY = GenerateOptions(max_tokens=0)


def prompt(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 64, length).tolist()


def read(engine: Engine, ids: list[int], session: Session | None = None) -> Finished:
    return engine.submit(ids, READ_ONLY, session=session).result(PATIENCE_S).finished


def seen(finished: Finished) -> tuple[int, list[int]]:
    return finished.common_tokens, list(finished.seen_next)


def test_a_prompt_that_parts_is_told_where_and_what_came_there() -> None:
    known = prompt(300)
    with Engine(FakeModel(), prefix_budget_bytes=ROOMY) as engine:
        assert seen(read(engine, known)) == (0, [])
        assert seen(read(engine, [*known[:200], 1, 2, 3])) == (200, known[200:208])
        assert seen(read(engine, [*known[:296], 64 - 1 - known[296]])) == (296, known[296:])
        assert seen(read(engine, known)) == (300, [])


def test_what_follows_may_be_of_several_checkpoints() -> None:
    known = prompt(300)
    with Engine(FakeModel(), prefix_budget_bytes=ROOMY) as engine:
        read(engine, known)  # with a checkpoint at 256
        assert seen(read(engine, [*known[:252], 63 - known[252]])) == (252, known[252:260])


def test_of_several_ways_the_newest_is_told() -> None:
    with Engine(FakeModel(), prefix_budget_bytes=ROOMY) as engine:
        for last in (1, 2):
            read(engine, [*prompt(100), *[last] * 30])
        assert seen(read(engine, [*prompt(100), 3])) == (100, [2] * 8)


def test_what_only_the_store_knew_is_common_too() -> None:
    store = FakeStore()
    with Engine(FakeModel(), prefix_budget_bytes=ROOMY, store=store) as engine:
        read(engine, prompt(300))
    with Engine(FakeModel(), prefix_budget_bytes=ROOMY, store=store) as engine:
        assert seen(read(engine, [*prompt(300), 5, 6])) == (300, [])


def test_a_session_is_told_of_itself() -> None:
    with Engine(FakeModel()) as engine:
        session = engine.new_session()
        read(engine, prompt(50), session)
        assert seen(read(engine, [*prompt(50)[:40], 63 - prompt(50)[40]], session)) == (40, prompt(50)[40:48])


sequences = st.lists(st.integers(0, 2), min_size=1, max_size=30)


@given(st.lists(sequences, min_size=1, max_size=6))
def test_it_is_always_some_earlier_prompt(prompts: list[list[int]]) -> None:
    with Engine(FakeModel(), prefix_budget_bytes=ROOMY) as engine:
        for index, ids in enumerate(prompts):
            common, following = seen(read(engine, ids))
            earlier = [before for before in prompts[:index] if before[:common] == ids[:common]]
            assert common == 0 or earlier
            assert all(
                before[: common + 1] != ids[: common + 1] for before in earlier if len(before) > common < len(ids)
            )
            assert not following or any(before[common : common + 8] == following for before in earlier)
