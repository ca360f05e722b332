"""What the speed instrument measures and counts; never how fast anything is."""

from pathlib import Path

from whitedwarf.bench.report import Machine, Report
from whitedwarf.bench.speed import Plan, measure
from whitedwarf.bench.traffic import traffic_per_token
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import synthesise
from whitedwarf.gguf.types import GgmlType
from whitedwarf.model.loading import load_model
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.weights.store import load_tensors


def test_every_frontier_is_measured_from_the_one_before_it(tmp_path: Path) -> None:
    synthesise(tmp_path / "m.gguf", "tiny", layers=3)
    seen: list[int] = []
    with open_gguf(tmp_path / "m.gguf") as gguf:
        model = load_model(gguf, CpuOps(threads=1)).transformer
        samples = list(measure(model, Plan((8, 24), decode_tokens=5, chunk_tokens=7), seen.append))
        report = Report(
            "m.gguf",
            Machine("cpu", 1, "scalar", 1e9),
            traffic_per_token(load_tensors(gguf), model.config.hp),
            samples,
            [],
        )
    assert seen == [8, 24]
    assert [(s.context_tokens, s.prefill_tokens, len(s.decode_s)) for s in samples] == [(8, 8, 5), (24, 16, 5)]
    low, high = samples[0].decode_quartiles_s
    assert 0 < low <= samples[0].decode_median_s <= high
    assert len(report.table().splitlines()) == 5
    assert "\n" not in report.json_line()


def test_traffic_counts_used_experts_once_and_one_row_of_each_table(tmp_path: Path) -> None:
    hp = synthesise(tmp_path / "m.gguf", "tiny", layers=1, quant="q8")
    with open_gguf(tmp_path / "m.gguf") as gguf:
        traffic = traffic_per_token(load_tensors(gguf), hp)
        sizes = {name: info.size_bytes for name, info in gguf.tensors.items()}
    expert_bytes = 3 * GgmlType.Q8_0.row_bytes(hp.hidden_size * hp.expert_size)
    assert traffic.expert_bytes == hp.num_experts_used * expert_bytes
    tables = ("token_embd.weight", "blk.0.ffn_gate_tid2eid.weight")
    others = sum(size for name, size in sizes.items() if "_exps" not in name and name not in tables)
    assert traffic.dense_bytes == others + 2 * hp.hidden_size + 4 * hp.num_experts_used
