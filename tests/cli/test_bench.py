"""`whitedwarf bench` from its flags to its files: what is there, never how fast."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from whitedwarf.prompt.tokenizer import Tokenizer

InProcess = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture(autouse=True)
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measuring stick is long; here a short one is enough."""
    monkeypatch.setattr("whitedwarf.bench.machine.read_bandwidth", lambda read_all, size_bytes=0: 1e9)


def test_a_table_comes_first_and_the_document_last(in_process: InProcess, babbler: Path, tmp_path: Path) -> None:
    words = ["bench", "-m", str(babbler), "--ctx-start", "8", "--ctx-max", "20", "--step-incr", "8", "-n", "3"]
    files = ["--csv", str(tmp_path / "a.csv"), "--json", str(tmp_path / "a.json")]
    code, out, err = in_process([*words, *files, "--repeats", "2", "--dump-frontier-logits-dir", str(tmp_path)])
    *table, last = out.splitlines()
    document = json.loads(last)
    assert code == 0
    assert table[0].startswith("babbler.gguf on ")
    assert "random ids" in table[1]
    assert [sample["context_tokens"] for sample in document["samples"]] == [8, 16, 20]
    assert [sample["prefill_tokens"] for sample in document["samples"]] == [8, 8, 4]
    assert {sample["gen_tokens"] for sample in document["samples"]} == {6}
    assert json.loads((tmp_path / "a.json").read_text()) == document
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 4
    logits = json.loads((tmp_path / "frontier_000016.logits.json").read_text())
    assert (logits["prompt_tokens"], logits["vocab"], len(logits["logits"])) == (16, 512, 512)
    assert logits["argmax_logit"] == max(logits["logits"]) == logits["logits"][logits["argmax_token"]["id"]]
    assert "20/20 tokens" in err


@pytest.mark.parametrize("words", [["--ctx-start", "4", "--ctx-max", "8"], ["batch", "--sequences", "1,2", "-d", "4"]])
def test_a_card_is_measured_against_its_own_memory(
    in_process: InProcess, babbler: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here PyTorch on this CPU is the card. No layer is looked at."""
    pytest.importorskip("torch")
    monkeypatch.setattr("whitedwarf.ops.torch_cards.COPIED_BYTES", 1 << 20)
    steps = ["-n", "2"]
    code, out, _ = in_process(["bench", *words, "-m", str(babbler), "--backend", "torch", *steps])
    document = json.loads(out.splitlines()[-1])
    assert code == 0
    assert (document["machine"]["threads"], document["machine"]["level"]) == (0, "torch")
    assert document["machine"]["read_bytes_per_s"] > 0
    assert all(sample.get("decode_layers") is None for sample in document["samples"])
    assert all(sample["of_bandwidth_limit"] > 0 for sample in document["samples"])
    assert "PyTorch on this CPU, torch" in out


def test_without_flags_everything_fits_the_model(in_process: InProcess, babbler: Path) -> None:
    code, out, _ = in_process(["bench", "-m", str(babbler), "--ctx-start", "5", "--ctx-max", "5", "-n", "0"])
    (sample,) = json.loads(out.splitlines()[-1])["samples"]
    assert (code, sample["decode_median_s"], sample["gen_tokens"]) == (0, None, 0)


def test_a_text_is_read_as_it_is_or_as_a_message(
    in_process: InProcess, tmp_path: Path, nano_tokenizer: Tokenizer
) -> None:
    (tmp_path / "t.txt").write_text("All happy families are alike. " * 20)
    limits = ["--ctx-start", "20", "--ctx-max", "20", "-n", "1"]
    for words in (["--prompt-file"], ["-sys", "Be brief.", "--chat-prompt-file"]):
        code, out, _ = in_process(["bench", *limits, *words, str(tmp_path / "t.txt")])
        assert (code, json.loads(out.splitlines()[-1])["prompt"]) == (0, "ids of t.txt")
    count = len(nano_tokenizer.encode_rendered((tmp_path / "t.txt").read_text()))
    code, _, err = in_process(["bench", "--ctx-max", "4000", "--prompt-file", str(tmp_path / "t.txt")])
    assert code == 2
    assert f"t.txt has {count} tokens, --ctx-max needs 4000" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prompt-file", "a", "--chat-prompt-file", "b"], "exclude each other"),
        (["--prompt-file", "no/such"], "cannot read no/such"),
        (["-sys", "x"], "--system needs --chat-prompt-file"),
        (["--ctx-max", "40000"], "need 40129 tokens, this model has a context of 32768"),
        (["--ctx-start", "9", "--ctx-max", "100", "--ctx-alloc", "228"], "need 229 tokens, the context would have 228"),
        (["--ctx", "100"], "--ctx-max, --gen-tokens and one more need"),
        (["--ctx", "300", "--ctx-alloc", "300"], "give one"),
        (["--ctx-start", "9", "--ctx-max", "8"], "--ctx-start 9 <= --ctx-max 8"),
        (["--plot", "x.txt"], "expected a name that ends in .svg"),
        (["--json", "no/such/folder.json"], "cannot write"),
        (["--dump-frontier-logits-dir", "no/such"], "no such folder"),
        (["-m", "no/such.gguf"], "no/such.gguf"),
        (["--backend", "reference"], "bench measures the cpu backend"),
    ],
)
def test_bad_input_is_told_before_anything_is_measured(in_process: InProcess, words: list[str], message: str) -> None:
    code, out, err = in_process(["bench", *words])
    assert (code, out) == (2, "")
    assert message in err
    assert "measuring" not in err


def test_a_csv_file_becomes_a_picture_beside_it(in_process: InProcess, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "xeon_f4.csv").write_text("ctx_tokens,prefill_tps,gen_tps\n1,2,3\n2,3,4\n")
    code, out, err = in_process(["bench", "plot", str(tmp_path / "xeon_f4.csv"), "--width", "640"])
    assert (code, out) == (0, "")
    assert f"wrote {tmp_path / 'xeon_f4_ts.svg'}" in err
    assert "xeon f4" in (tmp_path / "xeon_f4_ts.svg").read_text()
    code, _, err = in_process(["bench", "plot", str(tmp_path / "xeon_f4.csv"), "-o", str(tmp_path)])
    assert (code, "cannot write" in err) == (2, True)


def test_points_are_told_as_llama_bench_tells_them(in_process: InProcess, babbler: Path) -> None:
    code, out, _ = in_process(["bench", "points", "-m", str(babbler), "-p", "8,4", "-n", "2", "-d", "0,6", "-r", "2"])
    document = json.loads(out.splitlines()[-1])
    assert code == 0
    assert [(test["n_prompt"], test["n_gen"], test["n_depth"]) for test in document["tests"]] == [
        *[(4, 0, 0), (8, 0, 0), (0, 2, 0)],
        *[(4, 0, 6), (8, 0, 6), (0, 2, 6)],
    ]
    assert {len(test["samples_ts"]) for test in document["tests"]} == {2}


def test_a_peer_is_measured_in_turns_with_us(in_process: InProcess, babbler: Path, tmp_path: Path) -> None:
    peer = tmp_path / "llama-bench"
    tests = [{"n_prompt": 4, "n_gen": 0, "avg_ts": 1.5}, {"n_prompt": 0, "n_gen": 2, "avg_ts": 0.5}]
    peer.write_text(f"#!/bin/sh\necho '{json.dumps(tests)}'\n")
    peer.chmod(0o755)
    words = ["bench", "peers", "--llama-bench", str(peer), "-m", str(babbler), "-t", "1", "--rounds", "2"]
    code, out, err = in_process([*words, "-p", "4", "-n", "2", "--micro-batches", "512"])
    document = json.loads(out.splitlines()[-1])
    assert code == 0
    assert [point["name"] for point in document["points"]] == ["pp4", "tg2"]
    assert [point["theirs"]["samples"] for point in document["points"]] == [[1.5, 1.5], [0.5, 0.5]]
    assert {len(point["ours"]["samples"]) for point in document["points"]} == {2}
    assert "round 2 of 2: llama-bench" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["peers"], "expected one peer"),
        (["peers", "--llama-bench", "a", "--url", "b"], "expected one peer"),
        (["peers", "--llama-bench", "no/such"], "no/such: expected a program of llama.cpp"),
        (["peers", "--url", "x", "--repack", "2"], "expected 0, 1 or both"),
        (["peers", "--url", "x", "-p", "40000"], "need 40001 tokens, this model has a context of 32768"),
        (["peers", "--url", "x", "--json", "no/such/x.json"], "cannot write"),
        (["points", "-p", "x"], "-p x: expected whole numbers from 0"),
        (["points", "-p", "-1"], "expected whole numbers from 0"),
        (["points", "-p", "0", "-n", "0"], "nothing to measure"),
        (["points", "-d", "40000"], "need 40513 tokens, this model has a context of 32768"),
    ],
)
def test_bad_points_and_peers_are_told(in_process: InProcess, words: list[str], message: str) -> None:
    code, out, err = in_process(["bench", *words])
    assert (code, out) == (2, "")
    assert message in err


def test_several_sequences_decode_together(in_process: InProcess, babbler: Path) -> None:
    code, out, _ = in_process(
        ["bench", "batch", "-m", str(babbler), "--sequences", "1,3", "-d", "4", "-n", "1", "-r", "2"]
    )
    document = json.loads(out.splitlines()[-1])
    assert (code, [sample["sequences"] for sample in document["samples"]]) == (0, [1, 3])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sequences", "0"], "--sequences 0: expected whole numbers from 1"),
        (["--sequences", "1,300"], "at most 256 together"),
        (["-d", "40000"], "--depth and --steps need"),
        (["--json", "no/such/x.json"], "cannot write"),
    ],
)
def test_bad_batches_are_told(in_process: InProcess, words: list[str], message: str) -> None:
    code, out, err = in_process(["bench", "batch", *words])
    assert (code, out) == (2, "")
    assert message in err


def test_kernels_are_shown_beside_the_limits(
    in_process: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whitedwarf.cli.bench_kernels.measured_peaks", lambda kernels: ())
    words = ["bench", "kernels", "--parts", "quantise", "--rows", "1,2", "--levels", "all", "-r", "1", "-t", "1"]
    code, out, _ = in_process([*words, "--json", str(tmp_path / "k.json")])
    document = json.loads(out.splitlines()[-1])
    assert code == 0
    assert {sample["rows"] for sample in document["samples"]} == {1, 2}
    assert "scalar" in {sample["level"] for sample in document["samples"]}
    assert json.loads((tmp_path / "k.json").read_text()) == document


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--levels", "z80"], "--levels: this CPU has scalar"),
        (["--parts", "linear,x"], "--parts: expected some of linear"),
        (["--rows", "0"], "--rows 0: expected"),
        (["--plot", "no/such/x.svg"], "cannot write"),
    ],
)
def test_bad_kernels_are_told(in_process: InProcess, words: list[str], message: str) -> None:
    code, out, err = in_process(["bench", "kernels", *words])
    assert (code, out) == (2, "")
    assert message in err


def test_powers_take_turns_and_are_compared_to_full_power(in_process: InProcess, babbler: Path) -> None:
    code, out, _ = in_process(
        ["bench", "power", "-m", str(babbler), "--powers", "50", "-p", "40", "-n", "4", "-r", "1"]
    )
    assert code == 0
    table, document = out.splitlines()[:-1], json.loads(out.splitlines()[-1])
    assert len(table) == 4
    loads = {(load["power_percent"], load["phase"]): load for load in document["loads"]}
    assert set(loads) == {(power, phase) for power in (100, 50) for phase in ("prefill", "decode")}
    assert loads[100, "prefill"]["share"] == loads[100, "decode"]["share"] == 1
    assert all(load["cpu_per_s"] > 0 and load["tokens_per_s"] > 0 for load in loads.values())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--powers", "200"], "from 1 to 100"),
        (["--powers", "x"], "whole numbers"),
        (["--power", "50"], "say with --powers"),
    ],
)
def test_bad_powers_are_told(in_process: InProcess, words: list[str], message: str) -> None:
    code, _, err = in_process(["bench", "power", *words])
    assert code != 0
    assert message in err


def test_less_power_gives_the_same_score_later(in_process: InProcess, babbler: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("some words of a text " * 20)
    scores = [
        in_process(["perplexity", str(text), "-m", str(babbler), "--power", power, "--json"])[1]
        for power in ("100", "60")
    ]
    assert scores[0] == scores[1] != ""
