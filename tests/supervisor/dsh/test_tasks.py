"""Tasks of the real DSH through models that the supervisor starts (spec/supervisor.md 7: 4, 19, 20, 29).

The routes are always those that `export-routes` writes.
"""

import json
import os
import re
import sys
from pathlib import Path
from string import ascii_lowercase

import httpx2
import psutil
import pytest

from clients.server_process import whole
from supervisor.dsh.agent import Dsh, Finished, ended, route, settle
from supervisor.dsh.supervised import Supervised, asked, names, played, supervising

pytestmark = pytest.mark.clients

NANO = Path(__file__).resolve().parents[3] / "src" / "whitedwarf" / "data" / "nano.gguf"
SUMMARY = "## Primary Request and Intent\n- to be tested\n## Next Step\n- (none)"


def test_a_task_starts_the_model_and_is_done(dsh: Dsh, tmp_path: Path) -> None:
    model = played(tmp_path, reply="All is well.")
    with supervising(tmp_path, model) as supervised:
        assert supervised.model["state"] == "unloaded"
        done = dsh.run("Say something.", patches=[supervised.export()])
        assert (done.code, done.printed.strip()) == (0, "All is well."), done.told
        after = supervised.model
        assert (after["state"], after["start_count"], after["in_flight"]) == ("loaded", 1, 0)


def test_names_of_any_kind_lead_to_their_model(dsh: Dsh, tmp_path: Path) -> None:
    one, other = (played(tmp_path, name, reply=f"I am {name}.") for name in ("one star", "the/other:星"))
    alias = {"alias": "群星/v4:七 b"}
    other_log = other["bin"].index("--log") + 1
    other["bin"][other_log] = str(tmp_path / "other.log")  # no such name for a file
    with supervising(tmp_path, {**one, **alias}, {**other, **alias}) as supervised:
        for name, log in ("one star", "one star"), ("the/other:星", "other"):
            done = dsh.run("Say something.", patches=[supervised.export(name)])
            assert (done.code, done.printed.strip()) == (0, f"I am {name}."), done.told
            assert len(asked(tmp_path, log)) == 1


def test_a_task_survives_a_model_that_is_killed_while_it_answers(dsh: Dsh, tmp_path: Path) -> None:
    model = played(tmp_path, reply="All is well again.", die_streaming=tmp_path / "died")
    with supervising(tmp_path, model) as supervised:
        done = dsh.run("Say something.", patches=[supervised.export()])
        assert (done.code, done.printed.strip()) == (0, "All is well again."), done.told
        assert (tmp_path / "died").exists()
        assert supervised.model["start_count"] == 2


def test_a_cold_start_is_waited_for_in_one_request(dsh: Dsh, tmp_path: Path) -> None:
    model = played(tmp_path, reply="All is well.", load_s=4)
    top = {"earlyHeadersSec": 0.5, "loadingState": True}
    with supervising(tmp_path, model, **top) as supervised:
        done = dsh.run("Say something.", patches=[supervised.export()])
        assert (done.code, done.printed.strip()) == (0, "All is well."), done.told
        assert supervised.model["start_count"] == 1
    assert len(asked(tmp_path)) == 1


@pytest.mark.slow
@pytest.mark.skipif("WHITEDWARF_LONG" not in os.environ, reason="takes 340 s; WHITEDWARF_LONG=1 runs it")
def test_a_prompt_that_takes_longer_than_any_client_waits_for_headers_is_answered(dsh: Dsh, tmp_path: Path) -> None:
    model = played(tmp_path, reply="All is well.", answer_after_s=330)
    with supervising(tmp_path, {**model, "startTimeoutSec": 400}) as supervised:
        done = dsh.run("Say something.", patches=[supervised.export()], timeout_s=400)
    assert (done.code, done.printed.strip()) == (0, "All is well."), done.told
    assert len(asked(tmp_path)) == 1


# Compaction. As exported, DSH compacts before it comes to the limit. Without the policy that is exported too, it does
# not in so small a window: the first turn fills it to just under the limit, the second goes over, and so does the
# summary that DSH then asks for. Tokens are a quarter of the bytes; DSH's own prompt has 6,100.

LIMIT = 23_800
FULL = 17_300  # tokens of a prompt, beside those of DSH


def filling(tokens: int) -> str:
    return ("words of prose number " * tokens)[: 4 * tokens]


def two_turns(dsh: Dsh, supervised: Supervised, *, is_unloaded_between: bool = False) -> Finished:
    patch = supervised.export(has_policy=False)
    first = dsh.run("--json", filling(FULL), patches=[patch])
    assert first.code == 0, first.told
    if is_unloaded_between:
        httpx2.post(f"http://127.0.0.1:{supervised.port}/__supervisor/unload", timeout=30).raise_for_status()
    return dsh.run("--session-id", first.session, "tiny second question", patches=[patch])


def talkative(folder: Path, **behaviour: object) -> dict[str, object]:
    model = played(folder, reply="answer " * 460, summary=SUMMARY, bytes_per_token=4, **behaviour)
    return {**model, "ctxSize": 32_768, "softContextLimit": LIMIT}


def test_as_exported_dsh_compacts_before_anything_is_refused(dsh: Dsh, tmp_path: Path) -> None:
    with supervising(tmp_path, talkative(tmp_path)) as supervised:
        patch = supervised.export()
        first = dsh.run("--json", filling(8800), patches=[patch])
        prompts = (filling(7500), "tiny third question")  # it leaves the newest turn as it is, so that two are needed
        others = [dsh.run("--session-id", first.session, prompt, patches=[patch]) for prompt in prompts]
    assert [turn.code for turn in (first, *others)] == [0, 0, 0]
    chats = asked(tmp_path)
    assert any("compaction engine" in ask["last"] for ask in chats)
    assert max(ask["tokens"] for ask in chats) <= LIMIT
    assert min(ask["max_tokens"] for ask in chats) > 2000  # the exported window leaves room to answer


def test_over_the_soft_limit_dsh_compacts_and_goes_on(dsh: Dsh, tmp_path: Path) -> None:
    with supervising(tmp_path, talkative(tmp_path)) as supervised:
        second = two_turns(dsh, supervised)
    assert second.code == 0, second.told
    *_, full, summary, retry = asked(tmp_path)
    assert full["tokens"] <= LIMIT < summary["tokens"]
    assert "compaction engine" in summary["last"]
    assert retry["tokens"] < full["tokens"]
    assert min(ask["max_tokens"] for ask in (full, summary, retry)) > 2000  # the exported window leaves room to answer


def test_without_grace_the_summary_is_refused_too(dsh: Dsh, tmp_path: Path) -> None:
    with supervising(tmp_path, {**talkative(tmp_path), "softGraceSec": 0}) as supervised:
        second = two_turns(dsh, supervised)
    assert second.code == 1
    assert "CONTEXT_WINDOW_EXCEEDED" in second.told
    assert not any("compaction engine" in ask["last"] for ask in asked(tmp_path))


def test_an_overflow_told_after_the_headers_is_understood(dsh: Dsh, tmp_path: Path) -> None:
    model = talkative(tmp_path, load_s=3)
    with supervising(tmp_path, model, earlyHeadersSec=0.3) as supervised:
        second = two_turns(dsh, supervised, is_unloaded_between=True)
        assert supervised.model["start_count"] == 2
    assert second.code == 0, second.told
    assert any("compaction engine" in ask["last"] for ask in asked(tmp_path))


def test_a_real_llama_server_is_compacted_with_grace(
    dsh: Dsh, llama_server: Path, markov: Path, tmp_path: Path
) -> None:
    # One byte is one token; tools do not count, so that DSH's own prompt has 3,200.
    model = {"name": "markov", "path": str(markov), "ctxSize": 10_240, "softContextLimit": 6000, "cacheTypeV": "q8_0"}
    top = {"llamaServer": {"bin": str(llama_server), "args": ["-np", "1", "--jinja"]}}
    with supervising(tmp_path, model, **top) as supervised:
        patch = supervised.export(has_policy=False)
        first = dsh.run("--json", "A " + "some prose here " * 150 + ".", patches=[patch])
        second = dsh.run("--session-id", first.session, "B " + "some prose here " * 40 + ".", patches=[patch])
        assert (first.code, second.code, second.printed.strip()) == (0, 0, "OK"), second.told
        assert supervised.model["counting"] == "exact"
        told = httpx2.get(f"http://127.0.0.1:{supervised.port}/__supervisor/metrics", timeout=10).text
    assert 'requests_total{model="markov",outcome="400"} 1\n' in told


def test_a_real_llama_server_may_be_killed_while_it_answers(
    dsh: Dsh, llama_server: Path, markov: Path, tmp_path: Path
) -> None:
    model = {"name": "markov", "path": str(markov), "ctxSize": 10_240, "cacheTypeV": "q8_0"}
    top = {"llamaServer": {"bin": str(llama_server), "args": ["-np", "1", "--jinja"]}}
    with supervising(tmp_path, model, **top) as supervised:
        patch = tmp_path / "route.yml"
        patch.write_text(json.dumps(route(supervised.port, "markov", context=40_000, maxTokens=2000)))
        first = dsh.run("--json", "Hello.", patches=[patch])  # a first prompt ends with words of DSH's own
        assert first.code == 0, first.told
        process = psutil.Process(supervised.model["pid"])
        run = dsh.start("--session-id", first.session, "Say the alphabet, from a", patches=[patch])
        seen = [0]
        while seen[-1] < 20:
            assert run.poll() is None, (run.communicate(), seen)
            seen.append(letters_said(supervised.port))
        process.kill()
        done = ended(run)
        assert supervised.model["start_count"] == 2, (done, seen)
    # What had come before is dropped, and the answer comes whole; DSH calls one that max_tokens ended no success.
    letters = ascii_lowercase[1:] + ascii_lowercase * 80
    assert (done.code, done.printed.strip()) == (1, letters[:2000])


def letters_said(port: int) -> int:
    """By llama-server, of the answer that it gives now."""
    (slot,) = httpx2.get(f"http://127.0.0.1:{port}/slots", timeout=10).json()
    return int(slot["next_token"][0]["n_decoded"]) if slot["is_processing"] and slot.get("next_token") else 0


def test_our_own_engine_does_a_task_and_knows_it_again_after_it_was_unloaded(dsh: Dsh, tmp_path: Path) -> None:
    # DSH's first prompt has 8,200 tokens by nano's tokenizer. What so small a model would say to it, and which tools it
    # would call, is nobody's wish: its words are dictated.
    answers = [whole("I think.</think>Paris."), whole("I think.</think>Madrid.")]
    model = {"name": "nano", "path": str(NANO), "ctxSize": 32_768, "env": dictating(tmp_path, answers)}
    with supervising(tmp_path, model) as supervised:
        patch = supervised.export()
        first = dsh.run("--json", "What is the capital of France? " + "It is a large one. " * 250, patches=[patch])
        url = f"http://127.0.0.1:{supervised.port}/__supervisor"
        httpx2.post(f"{url}/unload", timeout=30).raise_for_status()
        second = dsh.run("--session-id", first.session, "And of Spain?", patches=[patch])
        assert (first.code, second.code) == (0, 0), second.told
        assert supervised.model["start_count"] == 2
        log = httpx2.get(f"{url}/logs", timeout=10).text
    found = re.findall(r"prompt=(\d+) cached=(\d+) .*reuse=disk", log)
    assert [int(prompt) > int(cached) > 8000 for prompt, cached in found] == [True], log


def dictating(folder: Path, answers: list[dict[str, object]]) -> dict[str, str]:
    """The environment in which `python -m whitedwarf serve` says these things, anew from the first in each process."""
    script, start = folder / "answers.jsonl", folder / "start" / "sitecustomize.py"
    script.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    start.parent.mkdir()
    tests = Path(__file__).resolve().parents[2]
    lines = ("import sys", "from pathlib import Path", f"sys.path.append({str(tests)!r})")
    start.write_text("\n".join((*lines, "from clients.dictated import dictate", f"dictate(Path({str(script)!r}))\n")))
    return {"PYTHONPATH": os.pathsep.join([str(start.parent), *filter(None, [os.environ.get("PYTHONPATH")])])}


# The plugin with the real supervisor


def test_the_plugin_brings_the_supervisor_and_gives_the_memory_back(dsh: Dsh, tmp_path: Path) -> None:
    with supervising(tmp_path, played(tmp_path, reply="All is well.")) as supervised:
        patch = supervised.export()
    dsh.add_plugin(plugin_options(supervised))
    done = dsh.run("Say something.", patches=[patch])
    try:
        assert (done.code, done.printed.strip()) == (0, "All is well."), done.told
        model = supervised.model
        assert (model["state"], model["start_count"]) == ("unloaded", 1)
        assert len(processes_of(supervised)) == 1
    finally:
        stop(supervised)


def test_of_two_supervisors_that_two_dsh_start_one_remains(dsh: Dsh, tmp_path: Path) -> None:
    with supervising(tmp_path, played(tmp_path, reply="All is well.")) as supervised:
        patch = supervised.export()
    other = settle(dsh.program, tmp_path / "other")  # another home, so that no lock keeps them apart
    for one in (dsh, other):
        one.add_plugin(plugin_options(supervised))
    runs = [one.start("Say something.", patches=[patch]) for one in (dsh, other)]
    finished = [ended(run) for run in runs]
    try:
        assert [(done.code, done.printed.strip()) for done in finished] == [(0, "All is well.")] * 2
        assert len(processes_of(supervised)) == 1
    finally:
        stop(supervised)


def plugin_options(supervised: Supervised) -> dict[str, object]:
    words = [sys.executable, "-m", "whitedwarf", "supervise"]
    return {"command": words, "supervisorConfig": str(supervised.config), "publicPorts": [supervised.port]}


def processes_of(supervised: Supervised) -> list[psutil.Process]:
    """Supervisors of this config."""
    return [one for one in psutil.process_iter() if names(one, str(supervised.config))]


def stop(supervised: Supervised) -> None:
    """End what a plugin has left running."""
    found = processes_of(supervised)
    for process in found:
        process.terminate()
    psutil.wait_procs(found, timeout=30)
