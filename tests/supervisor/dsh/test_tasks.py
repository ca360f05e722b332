"""Tasks of the real DSH through models that the supervisor starts (spec/supervisor.md 7: 4, 19, 20, 29).

The routes are always those that `export-routes` writes.
"""

import os
from pathlib import Path

import httpx2
import pytest

from supervisor.dsh.agent import Dsh, Finished
from supervisor.dsh.conftest import free_port
from supervisor.dsh.supervised import Supervised, asked, stand_in, supervising

pytestmark = pytest.mark.clients

NANO = Path(__file__).resolve().parents[3] / "src" / "whitedwarf" / "data" / "nano.gguf"
SUMMARY = "## Primary Request and Intent\n- to be tested\n## Next Step\n- (none)"
FAST = {"startSettleSec": 0}


def test_a_task_starts_the_model_and_is_done(dsh: Dsh, tmp_path: Path) -> None:
    model = stand_in(tmp_path, reply="All is well.")
    with supervising(tmp_path, free_port(), {**model, "ctxSize": 200_000, "softContextLimit": 0}) as supervised:
        assert supervised.model["state"] == "unloaded"
        done = dsh.run("Say something.", patches=[supervised.export()])
        assert (done.code, done.printed.strip()) == (0, "All is well."), done.told
        after = supervised.model
        assert (after["state"], after["start_count"], after["in_flight"]) == ("loaded", 1, 0)


def test_a_task_survives_a_model_that_is_killed_while_it_answers(dsh: Dsh, tmp_path: Path) -> None:
    model = stand_in(tmp_path, reply="All is well again.", die_streaming=tmp_path / "died")
    with supervising(tmp_path, free_port(), {**model, "ctxSize": 200_000, "softContextLimit": 0}) as supervised:
        done = dsh.run("Say something.", patches=[supervised.export()])
        assert (done.code, done.printed.strip()) == (0, "All is well again."), done.told
        assert (tmp_path / "died").exists()
        assert supervised.model["start_count"] == 2


def test_a_cold_start_is_waited_for_in_one_request(dsh: Dsh, tmp_path: Path) -> None:
    model = stand_in(tmp_path, reply="All is well.", load_s=4)
    top = {"earlyHeadersSec": 0.5, "loadingState": True}
    with supervising(tmp_path, free_port(), {**model, "ctxSize": 200_000, "softContextLimit": 0}, **top) as supervised:
        done = dsh.run("Say something.", patches=[supervised.export()])
        assert (done.code, done.printed.strip()) == (0, "All is well."), done.told
        assert supervised.model["start_count"] == 1
    assert len([ask for ask in asked(tmp_path) if ask["tools"]]) == 1


@pytest.mark.slow
@pytest.mark.skipif("WHITEDWARF_LONG" not in os.environ, reason="takes 340 s; WHITEDWARF_LONG=1 runs it")
def test_a_prompt_that_takes_longer_than_any_client_waits_for_headers_is_answered(dsh: Dsh, tmp_path: Path) -> None:
    model = stand_in(tmp_path, reply="All is well.", answer_after_s=330)
    entry = {**model, "ctxSize": 200_000, "softContextLimit": 0, "startTimeoutSec": 400}
    with supervising(tmp_path, free_port(), entry) as supervised:
        done = dsh.run("Say something.", patches=[supervised.export()], timeout_s=400)
    assert (done.code, done.printed.strip()) == (0, "All is well."), done.told
    assert len([ask for ask in asked(tmp_path) if ask["tools"]]) == 1


# Compaction: two turns fill the context to just under the limit, the third goes over it, and so does the summary that
# DSH then asks for. Tokens are a quarter of the bytes; DSH's own prompt has about 6,000.

LIMIT = 23_800


def three_turns(dsh: Dsh, supervised: Supervised, *, is_unloaded_before_third: bool = False) -> Finished:
    patch = supervised.export()
    first = dsh.run("--json", "A " + "words of prose number " * 1600, patches=[patch])
    assert first.code == 0, first.told
    second = dsh.run("--session-id", first.session, "B " + "words of prose number " * 1370, patches=[patch])
    assert second.code == 0, second.told
    if is_unloaded_before_third:
        httpx2.post(f"http://127.0.0.1:{supervised.port}/__supervisor/unload", timeout=30).raise_for_status()
    return dsh.run("--session-id", first.session, "tiny third question", patches=[patch])


def talkative(folder: Path, **behaviour: object) -> dict[str, object]:
    model = stand_in(folder, reply="answer " * 460, summary=SUMMARY, bytes_per_token=4, **behaviour)
    return {**model, "ctxSize": 32_768, "softContextLimit": LIMIT}


def test_over_the_soft_limit_dsh_compacts_and_goes_on(dsh: Dsh, tmp_path: Path) -> None:
    with supervising(tmp_path, free_port(), talkative(tmp_path)) as supervised:
        third = three_turns(dsh, supervised)
    assert third.code == 0, third.told
    *_, full, summary, retry = [ask for ask in asked(tmp_path) if ask["tools"]]
    assert full["tokens"] <= LIMIT < summary["tokens"]
    assert "compaction engine" in summary["last"]
    assert retry["tokens"] < full["tokens"]
    assert min(ask["max_tokens"] for ask in (full, summary, retry)) > 2000  # the exported window leaves room to answer


def test_without_grace_the_summary_is_refused_too(dsh: Dsh, tmp_path: Path) -> None:
    with supervising(tmp_path, free_port(), {**talkative(tmp_path), "softGraceSec": 0}) as supervised:
        third = three_turns(dsh, supervised)
    assert third.code == 1
    assert "CONTEXT_WINDOW_EXCEEDED" in third.told
    assert not any("compaction engine" in ask["last"] for ask in asked(tmp_path))


def test_an_overflow_told_after_the_headers_is_understood(dsh: Dsh, tmp_path: Path) -> None:
    model = talkative(tmp_path, load_s=3)
    with supervising(tmp_path, free_port(), model, earlyHeadersSec=0.3) as supervised:
        third = three_turns(dsh, supervised, is_unloaded_before_third=True)
        assert supervised.model["start_count"] == 2
    assert third.code == 0, third.told
    assert any("compaction engine" in ask["last"] for ask in asked(tmp_path))


def test_a_real_llama_server_is_compacted_with_grace(
    dsh: Dsh, llama_server: Path, markov: Path, tmp_path: Path
) -> None:
    # One byte is one token; tools do not count, so that DSH's own prompt has 3,200.
    model = {"name": "markov", "path": str(markov), "ctxSize": 16_384, "softContextLimit": 12_000}
    top = {"llamaServer": {"bin": str(llama_server), "args": ["-np", "1", "--jinja"]}}
    with supervising(tmp_path, free_port(), model, **top) as supervised:
        patch = supervised.export()
        first = dsh.run("--json", "A " + "some prose here " * 250 + ".", patches=[patch])
        second = dsh.run("--session-id", first.session, "B " + "some prose here " * 270 + ".", patches=[patch])
        third = dsh.run("--session-id", first.session, "C " + "some prose here " * 40 + ".", patches=[patch])
        assert [turn.code for turn in (first, second, third)] == [0, 0, 0], third.told
        assert second.printed.strip() == third.printed.strip() == "OK"
        assert supervised.model["counting"] == "exact"
        log = httpx2.get(f"http://127.0.0.1:{supervised.port}/__supervisor/metrics", timeout=10).text
    print(log)


def test_our_own_engine_does_a_task(dsh: Dsh, tmp_path: Path) -> None:
    # DSH's first prompt has 8,200 tokens by nano's tokenizer. What so small a model says to it is its own affair.
    model = {"name": "nano", "path": str(NANO), "ctxSize": 32_768}
    with supervising(tmp_path, free_port(), model) as supervised:
        done = dsh.run("What is the capital of France?", patches=[supervised.export()])
        assert done.code == 0, done.told
        assert supervised.model["start_count"] == 1


def test_the_plugin_brings_the_supervisor_and_gives_the_memory_back(dsh: Dsh, tmp_path: Path) -> None:
    """Everything at once: no supervisor runs when DSH starts."""
