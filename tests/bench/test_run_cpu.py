"""The script that measures everything: its flags, and the summary of its figures. Nothing is measured."""

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def summary(folder: Path) -> list[str]:
    command = [sys.executable, str(FOLDER / "summary.py"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def peers(bytes_per_token: int, **rates: tuple[float, float]) -> str:
    points = [
        {
            "name": name,
            "ours": {"tokens_per_s": ours, "of_limit": 0.5},
            "theirs": {"tokens_per_s": theirs, "of_limit": 0.25},
        }
        for name, (ours, theirs) in rates.items()
    ]
    machine = {"cpu": "a cpu", "threads": 2, "read_bytes_per_s": 10e9}
    return json.dumps({"machine": machine, "bytes_per_token": bytes_per_token, "points": points})


def test_the_summary_adds_pairs_up_to_all_layers(tmp_path: Path) -> None:
    (tmp_path / "f4.json").write_text(peers(1_000_000_000, tg64=(10.0, 5.0), pp512=(300.0, 100.0)))
    (tmp_path / "f6.json").write_text(peers(1_400_000_000, tg64=(5.0, 2.0)))
    lines = summary(tmp_path)
    text = "\n".join(lines)
    assert lines[0] == "a cpu, 2 threads"
    assert "f4 decode (t/s)" in text
    pair = next(line for line in lines if "pair, f6 - f4" in line).split()
    assert pair[-5:-2] == ["100.00", "300.00", "3.00"]
    full = next(line for line in lines if "all 43 layers" in line).split()
    assert full[-3:] == ["2050.0", "6050.0", "2.95"]
    bandwidth = lines[lines.index(next(line for line in lines if "all 43 layers" in line)) + 1].split()
    assert bandwidth[4] == f"{100 * (100 + 19.5 * 40) / 2050:.2f}"


def test_the_summary_of_nothing_has_no_figures(tmp_path: Path) -> None:
    assert len(summary(tmp_path)) == 2


def test_depths_and_batches_are_summed_up(tmp_path: Path) -> None:
    tests = [
        {"n_prompt": pp, "n_gen": tg, "n_depth": depth, "samples_ts": [rate], "state_bytes": depth * 100}
        for depth, rate in ((0, 10.0), (2048, 10.0), (16384, 9.0))
        for pp, tg in ((512, 0), (0, 64))
    ]
    (tmp_path / "f4_depths.json").write_text(json.dumps({"tests": tests, "peak_beyond_files_bytes": 10**9}))
    sample = {"sequences": 8, "times_one": 3.5, "tokens_per_s": 70.0, "of_bandwidth_limit": 0.5}
    (tmp_path / "f4_batch.json").write_text(json.dumps({"samples": [sample]}))
    text = "\n".join(summary(tmp_path))
    for words in ("decode at 16384 of that at 2048 (%)", "prefill at 16k of that at 0 (%)", "3.50  >= 3 times one"):
        assert words in text
    assert "90.00" in text
    assert "2.05" in text  # 20.5 pairs of 100 bytes


def test_an_unknown_flag_shows_how_to_use_the_script() -> None:
    done = subprocess.run(["bash", str(FOLDER / "run_cpu.sh"), "--nonsense"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--llama-bench PATH" in done.stderr


def test_a_peer_that_is_not_there_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    command = [
        "bash",
        str(FOLDER / "run_cpu.sh"),
        "--llama-bench",
        str(tmp_path / "no"),
        "--out",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "there is no such program" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
