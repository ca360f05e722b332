"""`bench streaming`: sides in turns under a limit, what they counted, and what is told of it."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from whitedwarf.bench.memory_group import GroupUse, memory_group
from whitedwarf.bench.pick_trace import HitRate
from whitedwarf.bench.streaming_report import StreamingReport, row
from whitedwarf.bench.streaming_sides import COLD, Figure, Job, Place, Side, llama_side, measure_sides, read_figure
from whitedwarf.bench.watched_process import Watched
from whitedwarf.cli.main import main
from whitedwarf.errors import UsageError
from whitedwarf.weights.store import bundled_model

GIB = 1 << 30
PLAN = {"planned_bytes": 2 * GIB, "experts_bytes": 1000, "num_experts": 10}


def watched(output: str = "", anonymous: int = GIB, file: int = 0, read: int | None = 500) -> Watched:
    return Watched(output, 1.0, GroupUse(anonymous, file), anonymous, file, read)


def figure(rates: Sequence[float], counted: Sequence[dict[str, float]] = (), **seen: int) -> Figure:
    return Figure(tuple(rates), tuple(counted), watched(**seen), {"streaming": PLAN} if counted else None)


def counts(hits: float, misses: float, read: float) -> dict[str, float]:
    return {"disk_bytes": read, "experts_hits": hits, "experts_misses": misses, "experts_read_bytes": read}


@pytest.fixture
def needs_groups() -> None:
    try:
        with memory_group(f"whitedwarf-test-{os.getpid()}", GIB):
            pass
    except UsageError as error:
        pytest.skip(str(error))


def test_ours_and_llama_bench_get_the_same_job(tmp_path: Path) -> None:
    job, model = Job(decode_tokens=8, repeats=3), Path("m.gguf")
    ours = Side("cold", COLD).command(model, 2, job, 7)
    theirs = Side("llama-bench", ("-mmp", "1"), tmp_path / "llama-bench").command(model, 2, job, 7)
    common = ["-m", "m.gguf", "-t", "2", "-p", "0", "-n", "8", "-d", "0", "-r", "3"]
    assert ours == [
        *(sys.executable, "-m", "whitedwarf", "bench", "points"),
        *common,
        *COLD,
        *("--seed", "7", "--no-warm-up"),
    ]
    assert theirs == [str(tmp_path / "llama-bench"), *common, "-mmp", "1", "-o", "json"]
    assert Job(prompt_tokens=64).flags[:2] == ["-p", "64"]


def test_a_llama_bench_reads_prompts_in_long_pieces(tmp_path: Path) -> None:
    side = Side("llama-bench", (), tmp_path / "llama-bench", ("-ub", "2048"))
    assert "-ub" in side.command(Path("m"), 1, Job(prompt_tokens=64), 1)
    assert "-ub" not in side.command(Path("m"), 1, Job(decode_tokens=64), 1)


def test_a_llama_bench_that_repacks_or_warms_up_is_told_not_to(tmp_path: Path) -> None:
    for words, expected in (("--repack <0|1> --no-warmup", True), ("nothing", False)):
        binary = tmp_path / "llama-bench"
        binary.write_text(f"#!/bin/sh\necho '{words}'\n")
        binary.chmod(0o755)
        flags = llama_side(binary).flags
        assert ("--repack" in flags, "--no-warmup" in flags) == (expected, expected)


@pytest.mark.parametrize(
    ("words", "flags"),
    [("-lm, --load-mode <auto|mmap>", ("--load-mode", "mmap")), ("-mmp, --mmap <0|1>", ("--mmap", "1")), ("none", ())],
)
def test_a_llama_bench_of_any_version_maps_the_file(tmp_path: Path, words: str, flags: tuple[str, ...]) -> None:
    binary = tmp_path / "llama-bench"
    binary.write_text(f"#!/bin/sh\necho '{words}'\n")
    binary.chmod(0o755)
    assert llama_side(binary).flags == flags


def test_the_first_repetition_is_cold_and_the_others_are_what_is_told() -> None:
    found = [
        figure([1, 4, 6], [counts(0, 10, 900), counts(8, 2, 200), counts(6, 4, 400)]),
        figure([2, 5], [counts(0, 10, 900), counts(8, 2, 240)], anonymous=3 * GIB, file=GIB, read=700),
    ]
    told = row("cold", found, tokens=2, disk_bytes_per_s=1000)
    assert told.cold.values == (1, 2)
    assert told.settled.median == 5
    assert told.read_bytes_per_token == 120
    assert told.of_disk == pytest.approx(0.6)
    assert told.hit_rate == pytest.approx(22 / 30)
    assert told.read_of_touched == pytest.approx(0.28)
    assert (told.peak_bytes, told.peak_anonymous_bytes, told.peak_file_bytes) == (4 * GIB, 3 * GIB, GIB)
    assert told.process_read_bytes == 700
    assert told.of_plan == 2


def test_one_repetition_is_both() -> None:
    told = row("mmap", [figure([3.0], read=0)], tokens=2, disk_bytes_per_s=1000)
    assert told.cold == told.settled
    assert (told.hit_rate, told.read_of_touched, told.of_plan, told.of_disk) == (None, None, None, None)


def test_the_report_compares_with_the_first_side_and_names_what_failed() -> None:
    figures = {"decode 2": {"mmap": [figure([1, 2])], "warm": [figure([3, 8], [counts(9, 1, 50)] * 2)], "llama": []}}
    report = StreamingReport(
        "m.gguf",
        8 * GIB,
        {"cpu": "a"},
        2 * GIB,
        1e9,
        {"decode 2": 2},
        figures,
        {"llama": "it was killed"},
        [HitRate(0.1, 5, 0.5)],
    )
    table = report.table()
    for told in ("8.00 GiB, under a limit of 2.00 GiB", "4.00x", "10%: 50.0%", "llama: left out, it was killed"):
        assert told in table
    document = json.loads(json.dumps(report.document()))
    assert [one["side"] for one in document["streaming_jobs"]["decode 2"]] == ["mmap", "warm"]
    assert document["streaming_jobs"]["decode 2"][1]["of_plan"] == 0.5


def test_llama_benchs_answer_is_read() -> None:
    side = Side("llama-bench", (), Path("llama-bench"))
    assert read_figure(side, watched('[{"n_gen": 8, "samples_ts": [1.5, 2.5]}]')).tokens_per_s == (1.5, 2.5)


@pytest.mark.usefixtures("needs_groups")
def test_a_side_that_fails_is_left_out_from_then_on(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("#!/bin/sh\necho '[{\"samples_ts\": [2.0]}]'\n")
    bad.write_text("#!/bin/sh\necho went wrong >&2; exit 1\n")
    for binary in (good, bad):
        binary.chmod(0o755)
    model = tmp_path / "model"
    model.write_bytes(b"x")
    place = Place([model], 1, GIB // 4, tmp_path, f"whitedwarf-test-{os.getpid()}")
    told: list[str] = []
    sides = [Side("good", (), good), Side("bad", (), bad)]
    found = measure_sides(place, sides, [Job(1)], 2, told.append)
    assert [len(found["decode 1"][side.name]) for side in sides] == [2, 0]
    assert "went wrong" in place.failures["bad"]
    assert told == [
        "round 1 of 2: decode 1, good",
        "round 1 of 2: decode 1, bad",
        "round 2 of 2: decode 1, good",
    ]


@pytest.mark.usefixtures("needs_groups")
def test_nano_under_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["-m", str(bundled_model()), "--limit", "0.5GB", "-n", "2", "-p", "8", "--rounds", "1"]
    code = main(["bench", "streaming", *flags, "--trace-tokens", "12", "--cache-experts", "8", "-t", "1"])
    out, err = capsys.readouterr()
    assert code == 0, err
    document = json.loads(out.splitlines()[-1])
    assert document["failures"] == {}
    decode, prefill = document["streaming_jobs"]["decode 2"], document["streaming_jobs"]["prefill 8"]
    assert [one["side"] for one in decode] == ["mmap", "streaming, cold", "streaming, warm"]
    assert all(one["settled"]["median"] > 0 for one in (*decode, *prefill))
    assert decode[1]["hit_rate"] is not None
    assert [rate["hit_rate"] for rate in document["hit_rates"]][-1] == 1
    assert document["streaming"]["cached_experts"] == 8


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["-n", "0"], "nothing to measure"),
        (["--limit", "much"], "--limit: got 'much'"),
        (["--limit", "0.1GB"], "hold no program"),
        (["--llama-bench", "/nowhere"], "expected a program of llama.cpp"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str], flags: list[str], told: str
) -> None:
    assert main(["bench", "streaming", "-m", str(bundled_model()), *flags]) == 2
    assert told in capsys.readouterr().err


def test_other_systems_are_told_that_it_is_linuxs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert main(["bench", "streaming", "-n", "1"]) == 2
    assert "Linux's control groups" in capsys.readouterr().err
