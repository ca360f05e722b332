"""The same greedy tokens and the same logits, bit by bit, wherever a prefix came from and whoever runs beside it.

On small models of several kinds; test_bits_*.py do it with the bundled one, at more lengths, and through the disk.
"""

import functools
from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

from fakes.gates import PATIENCE_S
from oracle.engines import oracle_model
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.ledger import total_bytes
from whitedwarf.engine.prefix import Prefixes
from whitedwarf.engine.request import GREEDY, GenerateOptions, Reuse, Token
from whitedwarf.model.base import Span, State
from whitedwarf.model.transformer import Transformer

Mode = tuple[str, str, bool]
MODES: list[Mode] = [("tinyA/tiny-f32.gguf", "packed", True), ("tinyQ/tiny-iq2.gguf", "packed", False)]
LENGTHS = (100, 127, 128, 129, 511, 512, 513)
SUFFIXES = (300, 128, 17, 3, 2, 1)
BUDGET_BYTES = 1 << 30
OPTIONS = GenerateOptions(max_tokens=5, sampling=GREEDY, logprobs=128)  # logits of 128 candidates, a sum over all


@pytest.fixture(params=MODES, ids=lambda mode: mode[0])
def mode(request: pytest.FixtureRequest) -> Mode:
    return cast("Mode", request.param)


@pytest.fixture
def engine(mode: Mode) -> Iterator[Engine]:
    with Engine(model_of(mode), max_chunk_tokens=256, prefix_budget_bytes=BUDGET_BYTES) as engine:
        yield engine


def model_of(mode: Mode) -> Transformer:
    file, kv_cache, quality = mode
    return oracle_model(file, kv_cache=kv_cache, quality=quality)


@functools.cache
def prompt(length: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(0, 512, length).tolist())


@functools.cache
def cold(mode: Mode, ids: tuple[int, ...]) -> tuple[Token, ...]:
    with Engine(model_of(mode)) as engine:
        return engine.submit(ids, OPTIONS).result(PATIENCE_S).tokens


def warm(engine: Engine, mode: Mode, ids: tuple[int, ...]) -> tuple[Reuse, int]:
    """Ask, compare every bit, and tell what was reused."""
    completion = engine.submit(ids, OPTIONS).result(PATIENCE_S)
    assert completion.tokens == cold(mode, ids)
    return completion.finished.reuse, completion.finished.reused_tokens


@pytest.mark.slow
@pytest.mark.parametrize("length", LENGTHS)
def test_a_prompt_again_and_with_any_suffix(engine: Engine, mode: Mode, length: int) -> None:
    ids = prompt(length)
    assert warm(engine, mode, ids) == (Reuse.NONE, 0)
    answer = tuple(token.id for token in cold(mode, ids))
    assert warm(engine, mode, (*ids, *answer, *prompt(9, seed=3))) == (Reuse.LIVE, length + len(answer) - 1)
    assert warm(engine, mode, ids) == (Reuse.MEMORY, length - 1)
    found = [warm(engine, mode, (*ids, *prompt(suffix, seed=suffix))) for suffix in SUFFIXES]
    assert {reuse for reuse, _ in found} == {Reuse.LIVE, Reuse.MEMORY}
    assert all(num_reused >= length for _, num_reused in found)


@pytest.mark.slow
def test_many_suffixes(engine: Engine, mode: Mode) -> None:
    for suffix in range(1, 301, 13):
        _, num_reused = warm(engine, mode, (*prompt(129), *prompt(suffix, seed=suffix)))
        assert suffix == 1 or num_reused >= 129 - 1


@pytest.mark.parametrize("step_back", [1, 2, 3, 4, 5, 8, 15, 16])
def test_a_step_back_from_a_checkpoint(engine: Engine, mode: Mode, step_back: int) -> None:
    for length in (129, 260):
        engine.submit(prompt(length), GenerateOptions(max_tokens=20, sampling=GREEDY)).result(PATIENCE_S)
        edited = (*prompt(length)[:-step_back], *prompt(40, seed=4))
        assert warm(engine, mode, edited) == (Reuse.MEMORY, length - step_back)


@pytest.mark.slow
def test_companions_of_every_age_some_of_them_cancelled(engine: Engine, mode: Mode) -> None:
    shared = prompt(300)
    prompts = [(*shared, *prompt(30 * n + 1, seed=n)) for n in range(4)] + [prompt(57), prompt(129, seed=8)]
    for _ in range(2):
        running = [engine.submit(ids, OPTIONS) for ids in prompts for _ in range(2)]
        for generation in running[1::4]:
            generation.next_event(PATIENCE_S)
            generation.cancel()
        for ids, generation in zip(prompts, running[::2], strict=True):
            assert generation.result(PATIENCE_S).tokens == cold(mode, ids)
        for generation in running:
            generation.result(PATIENCE_S)


def test_a_budget_that_forces_everything_out_changes_no_bit(mode: Mode) -> None:
    budget_bytes = 3 * total_bytes(Run(model_of(mode)).read(600).snapshot())
    with Engine(model_of(mode), max_chunk_tokens=128, prefix_budget_bytes=budget_bytes) as engine:
        for seed in range(6):
            warm(engine, mode, (*prompt(400, seed % 3), *prompt(60 * seed + 1, 50 + seed)))
            assert 0 < engine.prefix_stats.held_bytes <= budget_bytes
        assert engine.prefix_stats.num_evicted > 0


class Run:
    """A state that reads random prompts by hand."""

    def __init__(self, model: Transformer, state: State | None = None) -> None:
        self._model = model
        self.state = state or model.new_state()

    def read(self, end: int, seed: int = 0) -> State:
        ids = np.array(prompt(end, seed)[self.state.position :], np.int32)
        self._model.forward([Span(self.state, ids, "none")])
        return self.state


def test_one_run_keeps_one_copy_of_its_rows(mode: Mode) -> None:
    prefixes, run = Prefixes(model_of(mode), BUDGET_BYTES, 1), Run(model_of(mode))
    for end in range(250, 2001, 250):
        prefixes.remember(np.array(prompt(end)), run.read(end), None, is_named=False)
    longest = run.state.snapshot()
    assert prefixes.stats.held_bytes == 8 * longest.own_bytes + sum(longest.shared_bytes().values())


@pytest.mark.slow
def test_when_the_end_of_a_run_goes_its_rows_go_too(mode: Mode) -> None:
    model, system = model_of(mode), prompt(250)

    def agent(seed: int) -> np.ndarray:
        return np.array((*system, *prompt(1750, seed)), np.int32)

    def keep(prefixes: Prefixes, ids: np.ndarray) -> int:
        """Read `ids` as a request would; what a checkpoint of it weighs."""
        taken = prefixes.take(ids)
        model.forward([Span(taken.state, ids[taken.num_tokens :], "none")])
        prefixes.remember(ids, taken.state, None, is_named=True)
        prefixes.release(taken.source)
        return total_bytes(taken.state.snapshot())

    def run(budget_bytes: int) -> tuple[Prefixes, int]:
        prefixes = Prefixes(model, budget_bytes, 1)
        keep(prefixes, np.array(system, np.int32))
        weight = max(keep(prefixes, agent(seed)) for seed in (1, 2))
        keep(prefixes, np.array(prompt(2000, 9), np.int32))
        return prefixes, weight

    roomy, weight = run(BUDGET_BYTES)
    tight, _ = run(roomy.stats.held_bytes - 1)
    short = Run(model).read(250).snapshot().packed()
    assert tight.stats.num_evicted == 1
    assert tight.stats.held_bytes == roomy.stats.held_bytes - weight + total_bytes(short) - short.own_bytes
    assert tight.take(agent(2)).num_tokens == 1999
    taken = tight.take(agent(1))
    assert taken.num_tokens == 250
    (logits,) = model.forward([Span(taken.state, agent(1)[250:])])
    (expected,) = model.forward([Span(model.new_state(), agent(1))])
    assert (logits == expected).all()
