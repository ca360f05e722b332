"""A whole engine over a cluster: sessions, edits, regenerations and checkpoints have the answers of one process."""

import threading
import time

import numpy as np
import pytest

from cluster.parts import whole
from cluster.test_pipeline import Once, cluster
from engine.bits import options
from fakes.gates import PATIENCE_S
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, FinishReason, GenerateOptions, Reuse
from whitedwarf.errors import ClusterError

ROOMY = 1 << 30
CHUNK = 64


def prompt(length, seed=0):
    return np.random.default_rng(seed).integers(100, 4000, length).tolist()


BASE = prompt(300)
EDITED = [*BASE[:150], *prompt(90, seed=5)]


def talked(model, **more):
    """Two users with the same beginning; one goes on, regenerates and edits, the other comes back; with a session of
    its own beside them."""
    found = []
    with Engine(model, max_chunk_tokens=CHUNK, prefix_budget_bytes=ROOMY, **more) as engine:

        def ask(ids, num_tokens=6, **where):
            done = engine.submit(ids, options(num_tokens), **where).result(PATIENCE_S)
            found.append((done.tokens, done.finished.reused_tokens, done.finished.reuse))
            return [token.id for token in done.tokens]

        said = ask(BASE)
        other = engine.submit([*BASE[:200], *prompt(60, seed=3)], options(6))
        session = engine.new_session()
        own = ask(prompt(130, seed=4), session=session)
        found.append(other.result(PATIENCE_S).tokens)
        ask([*BASE, *said, *prompt(30, seed=6)])
        ask(BASE)  # regenerated
        ask(EDITED)
        ask([*BASE, *said, *prompt(31, seed=7)])
        ask([*prompt(130, seed=4), *own, *prompt(5, seed=8)], session=session)
        kept = engine.snapshot(session)
        again = engine.new_session(kept)
        ask([*prompt(130, seed=4), *own, *prompt(5, seed=8), 7], session=again)
        ask([*BASE, *said, *prompt(30, seed=6)])
    return found


@pytest.mark.parametrize("cuts", [(3,), (2, 4)])
@pytest.mark.parametrize("kv_cache", ["packed", "f32"])
def test_answers_and_what_is_reused_are_those_of_one_process(kv_cache, cuts):
    with cluster(kv_cache=kv_cache, cuts=cuts) as (model, routes):
        assert talked(model) == talked(whole("nano", kv_cache))
        assert len(routes.made) == 1


@pytest.mark.parametrize("at", [2, 5, 9, 20, 41])
@pytest.mark.parametrize(("mishap", "stage"), [("die", 0), ("lose", 1), ("die after", 1)])
def test_no_answer_changes_when_something_is_lost_on_the_way(mishap, stage, at):
    with cluster(mishaps=Once(mishap, stage, at)) as (model, routes):
        found = [entry[0] if isinstance(entry[1], int) else entry for entry in talked(model)]
        expected = [entry[0] if isinstance(entry[1], int) else entry for entry in talked(whole("nano"))]
        assert found == expected
        assert len(routes.made) == 1 + mishap.startswith("die")


def test_prompts_read_side_by_side_are_answered_as_alone():
    prompts = [prompt(length, seed=length) for length in (40, 150, 260, 90)]
    with Engine(whole("nano"), max_chunk_tokens=CHUNK) as engine:
        alone = [engine.submit(ids, options(8)).result(PATIENCE_S).tokens for ids in prompts]
    with cluster(mishaps=Once("die after", 1, 6)) as (model, _), Engine(model, max_chunk_tokens=CHUNK) as engine:
        together = [engine.submit(ids, options(8)) for ids in prompts]
        assert [one.result(PATIENCE_S).tokens for one in together] == alone


def test_a_failed_request_says_why_and_the_next_one_is_answered():
    with cluster() as (model, routes), Engine(model, max_chunk_tokens=CHUNK, prefix_budget_bytes=ROOMY) as engine:
        first = engine.submit(BASE, options(4)).result(PATIENCE_S).tokens
        routes.route.break_off()
        routes.is_up = False
        with pytest.raises(ClusterError, match="no member has layers 2 to 3"):
            engine.submit([*BASE, 5], options(4)).result(PATIENCE_S)
        routes.is_up = True
        assert engine.submit(BASE, options(4)).result(PATIENCE_S).tokens == first


def test_a_cancel_is_heard_while_the_cluster_is_away_and_while_a_stage_hangs():
    gate = threading.Event()
    with cluster() as (model, routes), Engine(model, max_chunk_tokens=CHUNK) as engine:
        routes.is_up, routes.limit_s = False, PATIENCE_S
        waiting = engine.submit(BASE, options(4))
        time.sleep(0.1)
        waiting.cancel()
        assert waiting.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
        routes.is_up = True
        routes.mishaps = lambda stage, work: gate.wait(PATIENCE_S) and None
        hanging = engine.submit(BASE, options(4))
        time.sleep(0.1)
        hanging.cancel()
        assert hanging.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
        gate.set()
        assert len(engine.submit(BASE, options(4)).result(PATIENCE_S).tokens) == 4


def test_a_session_that_was_cancelled_while_a_stage_computed_has_lost_nothing():
    gate, sessions = threading.Event(), []
    with cluster() as (model, routes), Engine(model, max_chunk_tokens=CHUNK) as engine:
        session = engine.new_session()
        engine.submit(BASE, options(1), session=session).result(PATIENCE_S)
        routes.mishaps = lambda stage, work: gate.wait(PATIENCE_S) and None
        hanging = engine.submit([*BASE, *prompt(50, seed=2)], options(4), session=session)
        time.sleep(0.2)
        hanging.cancel()
        hanging.result(PATIENCE_S)
        gate.set()
        routes.mishaps = lambda stage, work: sessions.extend(span.session for span in work.spans)
        found = engine.submit([*BASE, *prompt(50, seed=2), 9], options(4), session=session).result(PATIENCE_S)
        assert found.finished.reused_tokens >= len(BASE)
        assert len(set(sessions)) == 1
    with Engine(whole("nano"), max_chunk_tokens=CHUNK) as engine:
        assert found.tokens == engine.submit([*BASE, *prompt(50, seed=2), 9], options(4)).result(PATIENCE_S).tokens


def test_an_engine_that_closes_waits_for_no_machine():
    with cluster() as (model, routes):
        routes.is_up, routes.limit_s = False, PATIENCE_S
        engine = Engine(model, max_chunk_tokens=CHUNK)
        waiting = engine.submit(BASE, options(4))
        time.sleep(0.1)
        engine.close()
        assert waiting.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED


def test_stages_keep_no_more_than_the_engine():
    with cluster() as (model, routes), Engine(model, max_chunk_tokens=CHUNK, prefix_budget_bytes=ROOMY) as engine:
        for seed in range(6):
            engine.submit(prompt(130, seed), GenerateOptions(max_tokens=3, sampling=GREEDY)).result(PATIENCE_S)
        found = engine.submit(prompt(130, 0), GenerateOptions(max_tokens=3, sampling=GREEDY)).result(PATIENCE_S)
        assert found.finished.reuse is not Reuse.NONE
        held, stats = routes.route.parts[0].facts(), engine.prefix_stats
        assert held.num_snapshots <= stats.num_checkpoints + 1
        assert held.num_sessions <= stats.num_live + 2
