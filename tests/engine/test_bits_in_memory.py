"""Every length of prompt with every length of suffix, cold and from memory: the same bits (issue 4, demand.md P16)."""

import random

import numpy as np
import pytest

from engine.bits import (
    FEW_SUFFIXES,
    LENGTHS,
    MAX_SUFFIX,
    ROOMY,
    ask,
    cold,
    dealt,
    extended,
    first_token,
    nano,
    prompt,
    reference,
)
from fakes.prefix_store import FakeStore
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import Reuse
from whitedwarf.model.base import Span

pytestmark = pytest.mark.slow

every_length = pytest.mark.parametrize("length", LENGTHS)


def test_every_suffix_is_dealt_out() -> None:
    assert {suffix for length in LENGTHS for suffix in dealt(length)} == set(range(1, MAX_SUFFIX + 1))


@every_length
@pytest.mark.parametrize("chunk", [64, 127, 1000])
def test_cold_is_one_pass_of_the_model_in_any_chunks(length: int, chunk: int) -> None:
    with Engine(nano().transformer, max_chunk_tokens=chunk) as engine:
        for suffix in FEW_SUFFIXES if length < 1000 else FEW_SUFFIXES[:: 3 if chunk == 127 else 6]:
            assert ask(engine, extended(length, suffix), 1).tokens == (first_token(reference(length)[suffix]),)


@every_length
def test_from_memory(length: int) -> None:
    suffixes = dealt(length)
    random.Random(length).shuffle(suffixes)
    found = set()
    with Engine(nano().transformer, prefix_budget_bytes=ROOMY) as engine:
        ask(engine, prompt(length))
        for suffix in suffixes:
            answer = ask(engine, extended(length, suffix), 1)
            assert answer.finished.reused_tokens >= length
            assert answer.tokens == (first_token(reference(length)[suffix]),)
            found.add(answer.finished.reuse)
    assert found == {Reuse.LIVE, Reuse.MEMORY}


@every_length
def test_answers_from_memory_go_on_alike(length: int) -> None:
    with Engine(nano().transformer, prefix_budget_bytes=ROOMY) as engine:
        ask(engine, prompt(length))
        for suffix in FEW_SUFFIXES[:: 1 if length < 1000 else 5]:
            ids = extended(length, suffix)
            assert ask(engine, ids).tokens == ask(engine, ids).tokens == cold(ids)


def test_the_logits_offered_to_a_store_are_those_after_its_tokens() -> None:
    store, model = FakeStore(), nano().transformer
    with Engine(model, prefix_budget_bytes=ROOMY, store=store) as engine:
        ask(engine, prompt(600), 4)
    assert sorted({len(ids) for ids in store.offered}) == [256, 512, 600, 603]
    for ids, logits in zip(store.offered, store.offered_logits, strict=True):
        (expected,) = model.forward([Span(model.new_state(), np.array(ids, np.int32))])
        assert logits is not None
        assert (logits == expected[0]).all()
