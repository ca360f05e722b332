"""Single points: how many tokens are read and written where, and memory beyond the file."""

from pathlib import Path

import pytest

from whitedwarf.bench.points import Point, measure_points, points
from whitedwarf.bench.resident import peak_beyond_files_bytes
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import synthesise
from whitedwarf.model.base import Logits, Span
from whitedwarf.model.loading import load_model
from whitedwarf.ops.cpu import CpuOps


def test_each_point_is_measured_from_its_depth(tmp_path: Path) -> None:
    synthesise(tmp_path / "m.gguf", "tiny", layers=3)
    with open_gguf(tmp_path / "m.gguf") as gguf:
        model = load_model(gguf, CpuOps(threads=1)).transformer
        passes: list[tuple[int, int]] = []

        class Watched:
            config = model.config

            def new_state(self) -> object:
                return model.new_state()

            def forward(self, spans: list[Span]) -> list[Logits]:
                passes.append((spans[0].state.position, len(spans[0].ids)))
                return model.forward(spans)

        asked = points([10], [2], [0, 12, 20])
        found = list(measure_points(Watched(), asked, 2, 8))  # type: ignore[arg-type]
    assert [rates.point for rates in found] == list(asked)
    assert {len(rates.tokens_per_s) for rates in found} == {2}
    read, written = [(0, 8), (8, 2)], [(0, 1), (1, 1)]
    assert passes == [
        *read * 3,
        *[(0, 1), *written * 2],
        *[(0, 8), (8, 4)],
        *[(12, 8), (20, 2)] * 3,
        *[(12, 1), *[(12, 1), (13, 1)] * 2],
        *[(12, 8)],
        *[(20, 8), (28, 2)] * 3,
        *[(20, 1), *[(20, 1), (21, 1)] * 2],
    ]
    assert found[0].state_bytes is not None
    assert found[-1].state_bytes is not None
    assert found[-1].state_bytes > found[0].state_bytes > 0
    assert min(min(rates.tokens_per_s) for rates in found) > 0
    assert Point(20, "decode", 2).name == "tg2@20"


def test_memory_beyond_files_is_the_peak_without_their_pages(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tx\nVmHWM:\t    3000 kB\nRssFile:\t    1000 kB\n")
    assert peak_beyond_files_bytes(status) == 2000 * 1024
    status.write_text("Name:\tx\n")
    assert peak_beyond_files_bytes(status) is None
    assert peak_beyond_files_bytes(tmp_path / "none") is None


@pytest.mark.parametrize("size", [10])
def test_a_peak_below_the_files_is_none_of_ours(tmp_path: Path, size: int) -> None:
    (tmp_path / "status").write_text(f"VmHWM:\t{size} kB\nRssFile:\t{size + 1} kB\n")
    assert peak_beyond_files_bytes(tmp_path / "status") == 0
