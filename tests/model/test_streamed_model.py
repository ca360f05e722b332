"""A model whose experts come from the disk gives the bits of the one in the mapped file, or one clear error."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.faulty_files import FaultyFiles
from fakes.gates import PATIENCE_S
from fakes.rewritten import random_tensors, rewritten
from model.streamed_models import opened_ops, streamed
from native.weights import LEVELS
from oracle.engines import pieces
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, GenerateOptions
from whitedwarf.errors import ModelReadError
from whitedwarf.gguf.census import mtp_tensors
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.synth import synthesise
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model
from whitedwarf.model.steering import Steering
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.collecting import CollectingOps
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.ops.streamed_table import StreamedTable
from whitedwarf.weights.expert_profile import load_profile, save_profile
from whitedwarf.weights.store import bundled_model

PLAYS = (17, 1, 1, 40, 1, 3, 1, 1)  # tokens of a pass: chunks of a prompt and single ones
ANSWER = GenerateOptions(max_tokens=5, sampling=GREEDY)


def tokens(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 200, count).astype(np.int32)


def play(model: Transformer, sizes: tuple[int, ...] = PLAYS) -> np.ndarray:
    """Logits of all tokens of a sequence, in passes of these sizes, with two others beside it now and then."""
    state, others, logits = model.new_state(), [model.new_state() for _ in range(2)], []
    for number, part in enumerate(pieces(tokens(sum(sizes)), sizes)):
        beside = [Span(other, tokens(1 + 20 * (number % 2), seed=number), "last") for other in others[: number % 3]]
        logits.append(model.forward([*beside, Span(state, part, "all")])[-1])
    return np.concatenate(logits)


@pytest.fixture(scope="module")
def nano() -> Iterator[GgufFile]:
    with open_gguf(bundled_model()) as gguf:
        yield gguf


@pytest.fixture(scope="module")
def q2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GgufFile]:
    """Synthetic, in two files, with experts of two sizes."""
    path = tmp_path_factory.mktemp("streamed") / "tiny.gguf"
    synthesise(path, "tiny", quant="q2-q4", seed=3, split=2)
    with open_gguf(next(path.parent.glob("*00001-of*"))) as gguf:
        yield gguf


@pytest.fixture(scope="module")
def expected(nano: GgufFile) -> np.ndarray:
    return play(load_model(nano, CpuOps(1)).transformer)


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 20, 47, 48])
def test_nano_gives_its_bits_with_any_number_of_slots(nano: GgufFile, expected: np.ndarray, slots: int) -> None:
    with streamed(nano, slots, threads=2) as found:
        np.testing.assert_array_equal(play(found.model), expected)
        assert found.store.cache.num_held <= slots


def test_a_model_of_several_files_and_sizes_of_experts_gives_its_bits(q2: GgufFile) -> None:
    assert len(q2.paths) == 2
    expected = play(load_model(q2, CpuOps(1)).transformer)
    for slots in (2, 3, 11, 500):
        with streamed(q2, slots) as found:
            assert len({layer.expert_bytes for layer in found.store.layers}) == 2
            np.testing.assert_array_equal(play(found.model), expected)


@pytest.mark.parametrize("level", LEVELS)
def test_at_every_level_with_floats_too(nano: GgufFile, level: str) -> None:
    expected = play(load_model(nano, CpuOps(1, quality=True)).transformer)
    with streamed(nano, 5, quality=True, level=level) as found:
        np.testing.assert_array_equal(play(found.model), expected)


@settings(max_examples=8)
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6), slots=st.integers(1, 48))
def test_any_split_of_a_prompt_gives_the_same_bits(sizes: list[int], slots: int) -> None:
    with open_gguf(bundled_model()) as nano, streamed(nano, slots) as found:
        mapped = load_model(nano, CpuOps(1)).transformer
        np.testing.assert_array_equal(play(found.model, tuple(sizes)), play(mapped, tuple(sizes)))


def test_what_was_preloaded_does_not_show_in_the_logits(nano: GgufFile, expected: np.ndarray, tmp_path: Path) -> None:
    with streamed(nano, 20) as found:
        play(found.model)
        save_profile(tmp_path / "profile", "nano", found.store.cache)
    with streamed(nano, 20) as found:
        load_profile(tmp_path / "profile", "nano", found.store.cache)
        assert found.store.preload() == 20
        np.testing.assert_array_equal(play(found.model), expected)


def test_a_prompt_reads_each_expert_once(nano: GgufFile) -> None:
    with streamed(nano, 3) as found:
        found.model.forward([Span(found.model.new_state(), tokens(200))])
        assert found.store.traffic.loads == 48
        assert found.store.traffic.foreseen_unused == 0


def test_foreseeing_reads_before_anybody_asks(nano: GgufFile, expected: np.ndarray) -> None:
    with streamed(nano, 12) as found:
        play(found.model)
        play(found.model)
        traffic = found.store.traffic
        assert traffic.foreseen > 0
        assert traffic.foreseen_used > traffic.foreseen_unused
        np.testing.assert_array_equal(play(found.model), expected)


def test_nothing_of_the_running_model_is_mapped(nano: GgufFile, tmp_path: Path, expected: np.ndarray) -> None:
    """Else it would end by SIGBUS where the file is cut off, or the pages of the file would stay in memory."""
    path = tmp_path / "copy.gguf"
    shutil.copy(nano.paths[0], path)
    with open_gguf(path) as gguf, streamed(gguf, 48) as found:
        assert isinstance(found.model.embedding, StreamedTable)
        np.testing.assert_array_equal(play(found.model), expected)
        os.truncate(path, 4096)
        np.testing.assert_array_equal(play(found.model), expected)  # all of it is in memory


class TestOthersAround:
    def test_steering(self, nano: GgufFile) -> None:
        hp = load_model(nano, CpuOps(1)).transformer.config.hp
        directions = np.random.default_rng(3).standard_normal((hp.num_layers, hp.hidden_size)).astype(np.float32)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        steering = Steering(directions, 0.5, 0.25)
        with streamed(nano, 5) as found:
            mapped = load_model(nano, CpuOps(1)).transformer.steered(steering)
            np.testing.assert_array_equal(play(found.model.steered(steering)), play(mapped))

    def test_observers(self, nano: GgufFile) -> None:
        def seen(model: Transformer) -> list[tuple[str, int, bytes]]:
            rows: list[tuple[str, int, bytes]] = []
            for part in (tokens(20), tokens(1)):
                model.forward(
                    [Span(model.new_state(), part)], lambda name, layer, x: rows.append((name, layer, x.tobytes()))
                )
            return rows

        with streamed(nano, 5) as found:
            assert seen(found.model) == seen(load_model(nano, CpuOps(1)).transformer)

    @pytest.mark.parametrize("is_dense", [False, True])
    def test_calibration(self, nano: GgufFile, expected: np.ndarray, is_dense: bool) -> None:
        collector, ops = CollectingOps.around(CpuOps(1), is_dense=is_dense)
        play(load_model(nano, ops).transformer)
        with opened_ops(nano, 5) as inner:
            found, ops = CollectingOps.around(inner, is_dense=is_dense)
            np.testing.assert_array_equal(play(load_model(nano, ops).transformer), expected)
        assert found.moments.sums.keys() == collector.moments.sums.keys()
        for name, sums in collector.moments.sums.items():
            np.testing.assert_array_equal(found.moments.sums[name], sums)

    def test_a_block_for_drafting_stays_where_it_is(self, tmp_path: Path) -> None:
        synthesise(tmp_path / "tiny.gguf", "tiny", seed=1)
        block = random_tensors(mtp_tensors(model_shape("tiny")))
        with open_gguf(rewritten(tmp_path / "tiny.gguf", tmp_path / "mtp.gguf", added=block)) as gguf:
            mapped = load_model(gguf, CpuOps(1))
            with opened_ops(gguf, 5) as ops:
                loaded = load_model(gguf, ops)
                np.testing.assert_array_equal(play(loaded.transformer), play(mapped.transformer))
                streams = np.random.default_rng(1).standard_normal((5, 4, 256), np.float32)
                one, other = (
                    block.forward([Span(block.new_state(), tokens(5))], streams.copy()).logits
                    for block in (mapped.mtp, loaded.mtp)
                    if block is not None
                )
                np.testing.assert_array_equal(one, other)


class TestFaults:
    @pytest.fixture
    def files(self) -> FaultyFiles:
        return FaultyFiles()

    def failing(self, offset_bytes: int, size_bytes: int) -> int | None:
        raise OSError(5, "Input/output error")

    def ending(self, offset_bytes: int, size_bytes: int) -> int | None:
        return 0

    @pytest.mark.parametrize("fault", ["failing", "ending"])
    @pytest.mark.parametrize("slots", [1, 12])
    def test_a_fault_of_the_disk_is_one_error_and_the_next_pass_is_right(
        self, nano: GgufFile, files: FaultyFiles, fault: str, slots: int
    ) -> None:
        with streamed(nano, slots, files=files) as found:
            expected = play(load_model(nano, CpuOps(1)).transformer, (9, 1))
            np.testing.assert_array_equal(play(found.model, (9, 1)), expected)
            for _ in range(3):
                files.fault = getattr(self, fault)
                with pytest.raises(ModelReadError, match=r"nano\.gguf"):
                    play(found.model, (9, 1))
                files.fault = None
                np.testing.assert_array_equal(play(found.model, (9, 1)), expected)

    def test_every_single_read_may_fail(self, nano: GgufFile, files: FaultyFiles) -> None:
        expected = play(load_model(nano, CpuOps(1)).transformer, (1, 1))
        for number in range(0, 60, 7):
            with streamed(nano, 5, files=files) as found:
                before = len(files.reads)

                def once(offset_bytes: int, size_bytes: int, at: int = before + number) -> int | None:
                    return self.failing(offset_bytes, size_bytes) if len(files.reads) == at else None

                files.fault = once
                try:
                    np.testing.assert_array_equal(play(found.model, (1, 1)), expected)
                except ModelReadError:
                    files.fault = None
                    np.testing.assert_array_equal(play(found.model, (1, 1)), expected)
                files.fault = None

    def test_a_request_fails_and_the_next_one_is_answered(self, nano: GgufFile, files: FaultyFiles) -> None:
        prompt = tokens(30).tolist()
        with Engine(load_model(nano, CpuOps(1)).transformer) as engine:
            expected = engine.submit(prompt, ANSWER).result(PATIENCE_S).ids
        with streamed(nano, 8, files=files) as found, Engine(found.model) as engine:
            files.fault = self.failing
            with pytest.raises(ModelReadError, match="Input/output error"):
                engine.submit(prompt, ANSWER).result(PATIENCE_S)
            files.fault = None
            assert engine.submit(prompt, ANSWER).result(PATIENCE_S).ids == expected

    def test_weights_that_cannot_be_read_are_told_when_the_model_is_loaded(
        self, nano: GgufFile, files: FaultyFiles
    ) -> None:
        files.fault = lambda offset_bytes, size_bytes: self.failing(0, 0) if offset_bytes > 5_000_000 else None
        with pytest.raises(ModelReadError, match=r"nano\.gguf"), streamed(nano, 8, files=files):
            pass

    @pytest.mark.parametrize("damage", ["truncated", "written to"])
    def test_a_file_that_changes_under_us_gives_no_wrong_token(
        self, nano: GgufFile, tmp_path: Path, damage: str
    ) -> None:
        path = tmp_path / "copy.gguf"
        shutil.copy(nano.paths[0], path)
        with open_gguf(path) as gguf, streamed(gguf, 3) as found, Engine(found.model) as engine:
            engine.submit(tokens(9).tolist(), ANSWER).result(PATIENCE_S)
            if damage == "truncated":
                os.truncate(path, 1 << 20)
            else:
                with path.open("r+b") as file:
                    file.seek(6_000_000)
                    file.write(b"\0" * 4096)
                os.utime(path, ns=(1, 1))
            with pytest.raises(ModelReadError, match=r"copy\.gguf"):
                engine.submit(tokens(40, seed=4).tolist(), ANSWER).result(PATIENCE_S)

    def test_a_file_that_another_one_replaces_goes_on_as_it_was(
        self, nano: GgufFile, tmp_path: Path, expected: np.ndarray
    ) -> None:
        path = tmp_path / "copy.gguf"
        shutil.copy(nano.paths[0], path)
        with open_gguf(path) as gguf, streamed(gguf, 3) as found:
            (tmp_path / "new.gguf").write_bytes(b"something else")
            (tmp_path / "new.gguf").replace(path)
            np.testing.assert_array_equal(play(found.model), expected)
