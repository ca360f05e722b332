"""What the speed instrument measures and counts; never how fast anything is."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from whitedwarf.bench.layers import LayerClock, LayerTimes, full_model, medians, scaled, totals
from whitedwarf.bench.machine import Machine
from whitedwarf.bench.report import Report
from whitedwarf.bench.speed import Plan, measure, random_ids
from whitedwarf.bench.traffic import LayerTraffic, Traffic, layer_traffic, traffic_per_token
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import synthesise
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.gguf.types import GgmlType
from whitedwarf.model.base import Logits, Span
from whitedwarf.model.loading import load_model
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.weights.store import load_tensors

MACHINE = Machine("cpu", 1, "scalar", 1e9)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transformer]:
    path = tmp_path_factory.mktemp("speed") / "m.gguf"
    synthesise(path, "tiny", layers=4)
    with open_gguf(path) as gguf:
        yield load_model(gguf, CpuOps(threads=1)).transformer


def test_every_frontier_is_measured_from_the_one_before_it(model: Transformer) -> None:
    seen: list[int] = []
    plan = Plan((8, 24), decode_tokens=5, chunk_tokens=7, ids=random_ids(512, 24), repeats=3)
    samples = list(measure(model, plan, seen.append))
    hp = model.config.hp
    traffic = LayerTraffic((Traffic(1, 2),) * 4, (1,) * 4, 5)
    report = Report("m.gguf", "random ids", hp, MACHINE, traffic, samples)
    assert seen == [8, 24]
    assert [(s.context_tokens, s.prefill_tokens, len(s.prefill_s), len(s.decode_s)) for s in samples] == [
        (8, 8, 3, 15),
        (24, 16, 3, 15),
    ]
    ends, middle = samples[0].decode_quartiles_s, samples[0].decode_median_s
    assert ends is not None
    assert middle is not None
    assert 0 < ends[0] <= middle <= ends[1]
    assert len(report.table().splitlines()) == 9
    document = json.loads(json.dumps(report.document()))
    for part in ("prefill_layers", "decode_layers"):
        assert set(document["samples"][0][part]) == {"sliding", "CSA", "HCA", "rest"}
    assert document["samples"][0]["full_model"] is None


def test_what_is_decoded_at_a_frontier_leaves_the_next_one_alone(model: Transformer) -> None:
    ids, seen = random_ids(512, 40), {}

    def watch(context_tokens: int, logits: Logits) -> None:
        seen[context_tokens] = logits.copy()

    list(measure(model, Plan((10, 40), decode_tokens=9, chunk_tokens=8, ids=ids, repeats=2), watch=watch))
    (plain,) = model.forward([Span(model.new_state(), ids, "all")])
    np.testing.assert_array_equal(seen[10][0], plain[9])
    np.testing.assert_array_equal(seen[40][0], plain[39])


def test_nothing_is_decoded_where_nothing_is_asked_for(model: Transformer) -> None:
    (sample,) = measure(model, Plan((8,), decode_tokens=0, chunk_tokens=8, ids=random_ids(512, 8)))
    assert (sample.decode_s, sample.decode_median_s, sample.decode_quartiles_s) == ((), None, None)
    report = Report("m.gguf", "random ids", model.config.hp, MACHINE, LayerTraffic((), (), 5), [sample])
    assert report.of_limit(sample) is None
    assert report.table().splitlines()[3].split()[2:] == [*"-----", f"{sample.kv_bytes / 1e6:.1f}"]


def test_the_end_of_an_answer_is_never_drawn(model: Transformer) -> None:
    ids = random_ids(512, 8)
    (logits,) = model.forward([Span(model.new_state(), ids)])
    first = int(logits.argmax())
    drawn: list[int] = []

    class Watched:
        config = model.config

        def new_state(self) -> object:
            return model.new_state()

        def forward(self, spans: list[Span], observe: object = None) -> list[Logits]:
            if len(spans[0].ids) == 1:
                drawn.append(int(spans[0].ids[0]))
            return model.forward(spans, observe)  # type: ignore[arg-type]

    list(measure(Watched(), Plan((8,), 4, 8, ids, end_id=first)))  # type: ignore[arg-type]
    assert len(drawn) == 2 + 4 + 4  # warm-up, timed, and once more with the clock
    assert first not in drawn


def test_a_clock_tells_layers_from_the_rest(model: Transformer) -> None:
    clock = LayerClock()
    for _ in range(3):
        clock.begin()
        model.forward([Span(model.new_state(), random_ids(512, 3))], clock)
        clock.end()
    assert len(clock.passes) == 3
    assert {len(one.layers_s) for one in clock.passes} == {4}
    assert all(min(*one.layers_s, one.rest_s) > 0 for one in clock.passes)


def test_parts_are_combined_one_by_one() -> None:
    times = [LayerTimes((1.0, 5.0), 3.0), LayerTimes((2.0, 1.0), 1.0), LayerTimes((6.0, 3.0), 2.0)]
    assert medians(times) == LayerTimes((2.0, 3.0), 2.0)
    assert totals(times) == LayerTimes((9.0, 9.0), 6.0)
    assert scaled(times[0], 2) == LayerTimes((2.0, 10.0), 6.0)


def test_the_whole_model_is_told_from_one_layer_of_each_kind() -> None:
    hp = model_shape("flash", layers=4)
    times = LayerTimes((1.0, 1.0, 2.0, 3.0), 10.0)
    traffic = LayerTraffic((Traffic(10, 0), Traffic(10, 0), Traffic(10, 10), Traffic(20, 10)), (1,) * 4, 100)
    full = full_model(hp, times, scaled(times, 0.5), traffic, 100.0)
    assert full is not None
    assert full.prefill_s == full.decode_s / 2
    assert (full.name, full.num_layers, full.decode_s) == ("flash", 43, 10 + 2 * 1 + 21 * 2 + 20 * 3)
    assert full.weight_bytes == 100 + 2 * 10 + 21 * 20 + 20 * 30
    assert full.of_limit == full.weight_bytes / 100 / full.decode_s
    for other in (model_shape("flash", layers=3), model_shape("flash"), model_shape("tiny")):
        ones = LayerTimes((1.0,) * other.num_layers, 1.0)
        assert full_model(other, ones, ones, traffic, 1.0) is None


def test_of_pro_only_two_kinds_are_needed() -> None:
    hp = model_shape("pro", layers=3)
    traffic = LayerTraffic((Traffic(1, 0),) * 3, (1,) * 3, 0)
    times = LayerTimes((1.0, 1.0, 2.0), 0.0)
    full = full_model(hp, times, times, traffic, 1.0)
    assert full is not None
    assert (full.num_layers, full.decode_s) == (61, 31 * 1 + 30 * 2)


def test_traffic_counts_used_experts_once_and_one_row_of_each_table(tmp_path: Path) -> None:
    hp = synthesise(tmp_path / "m.gguf", "tiny", layers=1, quant="q8")
    with open_gguf(tmp_path / "m.gguf") as gguf:
        traffic = traffic_per_token(load_tensors(gguf), hp)
        layers = layer_traffic(load_tensors(gguf), hp)
        sizes = {name: info.size_bytes for name, info in gguf.tensors.items()}
    expert_bytes = 3 * GgmlType.Q8_0.row_bytes(hp.hidden_size * hp.expert_size)
    assert traffic.expert_bytes == hp.num_experts_used * expert_bytes
    assert layers.experts_bytes == (expert_bytes,)
    tables = ("token_embd.weight", "blk.0.ffn_gate_tid2eid.weight")
    others = sum(size for name, size in sizes.items() if "_exps" not in name and name not in tables)
    assert traffic.dense_bytes == others + 2 * hp.hidden_size + 4 * hp.num_experts_used
    assert layers.batch_bytes([hp.num_experts_used]) == traffic.total_bytes
    assert layers.batch_bytes([8]) - layers.batch_bytes([5]) == 3 * expert_bytes
