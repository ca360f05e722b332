"""--ssd-streaming as a user meets it: the same answers, what is told, what is refused, and the profile that stays."""

import gc
import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from whitedwarf.cli import placing
from whitedwarf.cli.doctor import examine, render
from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.cli.placing import plan_model
from whitedwarf.config import DEFAULT_CONTEXT, ModelSettings, StreamingSettings
from whitedwarf.engine.memory import CgroupUse, Probe
from whitedwarf.errors import OutOfMemoryError, UsageError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.weights.store import bundled_model

Call = Callable[[Sequence[str]], tuple[int, str, str]]
ASK = ("run", "-p", "hi", "-n", "6", "--nothink", "--temp", "0", "-c", "1024", "--cpu")
STREAM = ("--ssd-streaming", "--ssd-streaming-cache-experts")
MIB = 1 << 20
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
EXPERTS = 48  # of nano
IDS = np.arange(3, 40, dtype=np.int32)


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where profiles go, empty at first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/whitedwarf/experts"


@pytest.fixture
def call(in_process: Call) -> Call:
    """A command line, whose model is gone when it returns."""

    def run(words: Sequence[str]) -> tuple[int, str, str]:
        result = in_process(words)
        gc.collect()
        return result

    return run


def opened(**settings: object) -> LoadedModel:
    return open_model(ModelSettings(context=256, **{"backend": "cpu", **settings}))  # type: ignore[arg-type]


def logits_of(loaded: LoadedModel) -> np.ndarray:
    state = loaded.transformer.new_state()
    read = loaded.transformer.forward([Span(state, IDS, "all")])[0]
    return np.concatenate([read, loaded.transformer.forward([Span(state, IDS[:1], "all")])[0]])


@pytest.mark.parametrize("kept", ["2", "9", "0.004GB"])
def test_answers_are_those_of_the_mapped_model_bit_for_bit(kept: str) -> None:
    whole = logits_of(opened())
    streamed = opened(ssd_streaming=True, ssd_streaming_cache_experts=kept)
    assert np.array_equal(logits_of(streamed), whole)
    assert streamed.streaming is not None
    assert streamed.streaming.stats()["misses"] > 0


def test_the_start_and_the_speeds_tell_what_is_kept_and_found(call: Call) -> None:
    plain = call(ASK)
    code, out, err = call((*ASK, *STREAM, "12"))
    assert (code, out) == (0, plain[1])
    for told in ("12 of 48 experts (25.0%)", "204.00 KiB each", "of other weights", "preloaded", "up to 8 at a time"):
        assert told in err
    assert "without --ssd-streaming it is at least as fast" in err
    assert "read from disk again and again" not in err
    assert "% found, " in err.splitlines()[-1]
    assert "GB read" in err.splitlines()[-1]


def test_the_next_start_brings_in_what_was_used_most(call: Call, profiles: Path) -> None:
    assert "; 0 preloaded" in call((*ASK, *STREAM, "12"))[2]
    (file,) = profiles.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert "; 12 preloaded" in call((*ASK, *STREAM, "12"))[2]
    assert "; 5 preloaded" in call((*ASK, *STREAM, "12", "--ssd-streaming-preload-experts", "5"))[2]
    assert "; 0 preloaded" in call((*ASK, *STREAM, "12", "--ssd-streaming-cold"))[2]


def test_a_broken_profile_is_told_and_costs_nothing_else(call: Call, profiles: Path) -> None:
    call((*ASK, *STREAM, "12"))
    (file,) = profiles.iterdir()
    file.write_text("{}")
    code, _, err = call((*ASK, *STREAM, "12"))
    assert code == 0
    assert "no profile of this model's experts" in err
    assert file.read_text() == "{}"


def test_more_than_there_are_is_all_of_them(call: Call) -> None:
    assert "48 of 48 experts (100.0%)" in call((*ASK, *STREAM, "5000"))[2]


def test_another_backend_is_refused(call: Call) -> None:
    code, _, err = call(("run", "-p", "hi", "--ssd-streaming", "--backend", "reference"))
    assert code == 2
    assert "--ssd-streaming runs with --backend" in err
    assert "the backend is reference" in err


@pytest.mark.parametrize(
    "flags", [("--ssd-streaming-cold",), (*STREAM, "many"), ("--simulate-used-memory", "1"), (*STREAM, "0.00001GB")]
)
def test_wrong_options_end_with_2(call: Call, flags: tuple[str, ...]) -> None:
    assert call((*ASK, *flags))[0] == 2


def test_memory_that_is_taken_away_is_told(call: Call) -> None:
    code, _, err = call((*ASK, "--simulate-used-memory", "0.01GB"))
    assert code == 0
    assert "10.2 MiB of memory are taken away" in err
    assert call((*ASK, "--simulate-used-memory", "900000GB"))[0] == 1


def tight(usable_mib: float) -> Probe:
    return Probe(64 << 30, 60 << 30, (CgroupUse(int(usable_mib * MIB), 0, 0),))


def test_the_limit_of_a_control_group_decides() -> None:
    with open_gguf(bundled_model()) as gguf:
        plan = plan_model(
            ModelSettings(backend="cpu", ssd_streaming=True, context=256, prefill_chunk=16),
            gguf,
            tight(17),
            DEFAULT_CONTEXT,
            lambda text: None,
        )
        assert plan.streaming is not None
        assert 2 < plan.streaming.num_cached < EXPERTS
        assert plan.streaming.planned_bytes <= 17 * MIB * 0.8
        assert plan.chunk_tokens == 16
        with pytest.raises(OutOfMemoryError, match="even with its experts streamed"):
            plan_model(
                ModelSettings(backend="cpu", ssd_streaming=True), gguf, tight(6), DEFAULT_CONTEXT, lambda text: None
            )


def test_contexts_side_by_side_and_beginnings_of_prompts_take_from_the_experts() -> None:
    with open_gguf(bundled_model()) as gguf:
        settings = ModelSettings(backend="cpu", ssd_streaming=True, context=1024, prefill_chunk=16)

        def kept(parallel: int, prefix_mib: int) -> int:
            plan = plan_model(
                settings,
                gguf,
                tight(24),
                DEFAULT_CONTEXT,
                lambda text: None,
                parallel=parallel,
                prefix_bytes=prefix_mib * MIB,
            )
            assert plan.streaming is not None
            return plan.streaming.num_cached

        assert kept(1, 0) > kept(8, 0)
        assert kept(1, 0) > kept(1, 4)


def test_doctor_tells_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    from whitedwarf.cli import doctor

    monkeypatch.setattr(doctor, "probe_memory", lambda: tight(60))
    assert "streaming   not needed" in render(examine(StreamingSettings(backend="cpu")))
    monkeypatch.setattr(doctor, "probe_memory", lambda: tight(28))
    report = examine(StreamingSettings(backend="cpu"))
    assert "streaming   with --ssd-streaming: " in render(report)
    assert report.model.streaming is not None
    monkeypatch.setattr(doctor, "probe_memory", lambda: tight(6))
    assert "streaming   impossible: even with its experts streamed" in render(examine(StreamingSettings(backend="cpu")))


def test_doctor_takes_the_same_options(call: Call) -> None:
    code, out, _ = call(("doctor", "--backend", "cpu", *STREAM, "9", "--json"))
    assert code == 0
    assert json.loads(out)["model"]["streaming"]["slots"][0]["count"] == 9


def test_bench_tells_where_experts_came_from(call: Call) -> None:
    flags = ("--ctx-max", "32", "--ctx-start", "16", "-n", "2", "--cpu", *STREAM, "6")
    code, out, _ = call(("bench", *flags))
    document = json.loads(out.splitlines()[-1])
    assert code == 0
    assert document["experts"]["hits"] + document["experts"]["misses"] > 0
    assert document["streaming"]["cached_experts"] == 6
    assert "experts: " in out


def test_points_count_bytes_and_experts_and_write_picks(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "picks.npy"
    flags = ("-p", "0", "-n", "3", "-r", "2", "--no-warm-up", "--seed", "5", "--picks", str(file), *STREAM, "6")
    code, out, _ = call(("bench", "points", *flags))
    (test,) = json.loads(out.splitlines()[-1])["tests"]
    assert code == 0
    assert len(test["counted"]) == 2
    assert all(one["experts_hits"] + one["experts_misses"] == 3 * 6 * 2 for one in test["counted"])
    assert np.load(file).shape == (6, 6, 2)


def test_plain_models_are_planned_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "plan_store", lambda *args: pytest.fail("nothing is to be streamed"))
    assert opened().streaming is None
    assert opened().expert_stats is None


@needs_torch
def test_experts_come_to_a_card_from_the_disk() -> None:
    where = {"backend": "torch", "device_memory": "15M", "expert_misses": "copy"}
    whole = logits_of(opened(**where))
    streamed = opened(**where, ssd_streaming=True, ssd_streaming_cache_experts="5")
    assert np.array_equal(logits_of(streamed), whole)
    assert streamed.expert_stats is not None
    stats = streamed.expert_stats()
    assert stats["read_bytes"] > 0
    assert stats["slots"] > 5  # those of the card


@needs_torch
def test_a_card_that_holds_the_whole_model_streams_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    loaded = opened(backend="torch", ssd_streaming=True)
    assert loaded.streaming is None
    assert "the whole model fits on cards: nothing is streamed" in capsys.readouterr().err


def test_mlx_is_refused_in_words() -> None:
    with open_gguf(bundled_model()) as gguf, pytest.raises(UsageError, match="the backend is mlx: choose another one"):
        plan_model(
            ModelSettings(backend="mlx", ssd_streaming=True), gguf, tight(100), DEFAULT_CONTEXT, lambda text: None
        )
