"""Several sequences together: how many rows every pass has, where each begins, and which experts are counted."""

import json
from pathlib import Path

import numpy as np

from whitedwarf.bench.batch import PICK_STEPS, BatchPlan, BatchSample, measure_batch
from whitedwarf.bench.batch_report import BatchReport
from whitedwarf.bench.machine import Machine
from whitedwarf.bench.traffic import LayerTraffic, Traffic
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import synthesise
from whitedwarf.model.base import Logits, Span
from whitedwarf.model.batch import Observer
from whitedwarf.model.loading import load_model
from whitedwarf.ops.cpu import CpuOps

PLAN = BatchPlan(sizes=(1, 3), depth=9, steps=2, repeats=2, chunk_tokens=5)


def test_sizes_take_turns_from_the_same_depth(tmp_path: Path) -> None:
    hp = synthesise(tmp_path / "m.gguf", "tiny", layers=3)
    picked: dict[tuple[int, int], list[int]] = {}
    with open_gguf(tmp_path / "m.gguf") as gguf:
        model = load_model(gguf, CpuOps(threads=1)).transformer
        passes: list[tuple[int, int]] = []

        class Watched:
            config = model.config

            def new_state(self) -> object:
                return model.new_state()

            def forward(self, spans: list[Span], observe: Observer | None = None) -> list[Logits]:
                positions = {span.state.position for span in spans}
                assert len(positions) == 1
                passes.append((len(spans), positions.pop()))

                def watch(name: str, layer: int, rows: np.ndarray) -> None:
                    if name == "experts_picked":
                        picked.setdefault((len(spans), layer), []).append(len(set(rows.ravel().tolist())))
                    if observe is not None:
                        observe(name, layer, rows)

                return model.forward(spans, watch if observe is not None else None)

        samples = measure_batch(Watched(), PLAN)  # type: ignore[arg-type]
    read = [(1, 0), (1, 5)]
    noted = [(size, 9 + step) for size in PLAN.sizes for step in range(PICK_STEPS)]
    timed = [(size, 9 + step) for size in PLAN.sizes for step in range(1 + PLAN.steps)]
    assert passes == [*read, *noted, *timed * 2]
    assert [(sample.sequences, len(sample.step_s)) for sample in samples] == [(1, 4), (3, 4)]
    assert samples[0].distinct_experts == (hp.num_experts_used,) * 3
    for layer in range(3):
        assert samples[1].distinct_experts[layer] == np.mean(picked[3, layer])


def test_the_report_counts_what_a_step_reads() -> None:
    traffic = LayerTraffic((Traffic(100, 20),) * 2, (10, 10), 50)
    samples = [BatchSample(1, (1.0,) * 3, (2.0, 2.0)), BatchSample(8, (2.0,) * 3, (5.0, 8.0))]
    report = BatchReport("m.gguf", Machine("cpu", 1, "avx2", 1000.0), traffic, PLAN, samples)
    assert [report.step_bytes(sample) for sample in samples] == [290, 380]
    assert [report.of_limit(sample) for sample in samples] == [0.29, 0.19]
    assert [report.gain(sample) for sample in samples] == [1.0, 4.0]
    assert report.table().splitlines()[-1].split()[4:6] == ["4.00", "6.5"]
    assert json.loads(json.dumps(report.document()))["samples"][1]["times_one"] == 4.0
