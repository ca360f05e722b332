"""`whitedwarf bench cluster`: what a hop costs, and what two machines read together."""

import os
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from whitedwarf.bench.cluster import ClusterPlan, Pace, measure_pace
from whitedwarf.bench.cluster_processes import LocalCluster, local_cluster, pin
from whitedwarf.bench.cluster_report import ClusterReport
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.cluster_extra import check_extra
from whitedwarf.cli.loading import open_file, open_model
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import DEFAULT_FILE, POSITIVE, ClusterSettings, FileSettings, ModelSettings
from whitedwarf.gguf.hparams import from_metadata


def command(
    *,
    prompt_tokens: Annotated[int, Parameter(validator=POSITIVE)] = 4096,
    prefill_chunk: Annotated[int, Parameter(validator=POSITIVE)] = 128,
    gen_tokens: Annotated[int, Parameter(name=("--gen-tokens", "-n"), validator=POSITIVE)] = 128,
    repeats: Annotated[int, Parameter(validator=POSITIVE)] = 5,
    first_layers: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    cluster_bits: Literal[32, 16, 8] = 32,
    plaintext: bool = False,
    output: OutputSettings = DEFAULT_OUTPUT,
    model: FileSettings = DEFAULT_FILE,
) -> None:
    """Measure a cluster of processes on this machine beside one process, each with one thread.

    First the whole model in one process, then its layers in two (a core each, where the system can do that), then in
    three. A table goes to standard output, and one JSON document as its last line.

    Parameters
    ----------
    prompt_tokens
        Length of the prompts.
    prefill_chunk
        Tokens of a prompt in one pass: pieces that travel while others are computed.
    gen_tokens
        Tokens decoded one by one.
    repeats
        How often a prompt is read; medians are told.
    first_layers
        Layers in this process; the others have the rest. Default: half of them.
    cluster_bits
        Bits for each number between processes.
    plaintext
        Without keys and encryption.
    """
    check_extra()
    output.check()
    plan = ClusterPlan(prompt_tokens, prefill_chunk, gen_tokens, repeats)
    with open_file(model) as gguf:
        name, num_layers = gguf.paths[0].name, from_metadata(gguf.metadata, gguf.tensors).num_layers
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    other = cores[1] if len(cores) > 1 else None
    load = os.getloadavg()[0]
    is_pinned = other is not None and pin(0, cores[0])
    settings = ModelSettings(model=model.model, backend="cpu", threads=1, context=prompt_tokens + gen_tokens)
    first = min(first_layers or num_layers // 2, num_layers - 2)
    middle = first + (num_layers - first) // 2
    progress = ProgressLine()
    alone = measure_pace(open_model(settings).transformer, 0, plan, progress.show)
    with tempfile.TemporaryDirectory(prefix="whitedwarf-bench-") as folder:
        trust = _trust(Path(folder), plaintext=plaintext)
        words = () if model.model is None else ("--model", model.model)
        with local_cluster(Path(folder), trust.words, words) as cluster:
            asked = replace(trust.settings, layers=f"0:{first - 1}", cluster_bits=cluster_bits)
            paces = []
            for members in ([f"{first}:output"], [f"{first}:{middle - 1}", f"{middle}:output"]):
                for layers in members:
                    cluster.join(layers, other if len(members) == 1 else None)
                paces.append(_pace(cluster, len(members), settings, asked, plan, progress))
                cluster.part()
    progress.clear()
    cpu = read_machine().cpu
    report = ClusterReport(name, cpu, load, is_pinned, not plaintext, cluster_bits, plan, alone, tuple(paces))
    output.finish(report.table(), report.document())


def _pace(
    cluster: LocalCluster,
    members: int,
    settings: ModelSettings,
    asked: ClusterSettings,
    plan: ClusterPlan,
    progress: ProgressLine,
) -> Pace:
    place = replace(asked, cluster=f"127.0.0.1:{cluster.port}")
    loaded = open_model(replace(settings, cluster=place))
    assert loaded.coordinator is not None
    with closing(loaded.coordinator):
        return measure_pace(loaded.transformer, members, plan, progress.show)


class _Trust:
    """Keys in a folder, or none; as words for the processes, and as settings for us."""

    def __init__(self, words: tuple[str, ...], settings: ClusterSettings) -> None:
        self.words = words
        self.settings = settings


def _trust(folder: Path, *, plaintext: bool) -> _Trust:
    if plaintext:
        return _Trust(("--plaintext",), ClusterSettings(plaintext=True))
    from whitedwarf.cluster.keys import make_keys

    keys = make_keys(folder / "keys").folder
    return _Trust(("--cluster-keys", str(keys)), ClusterSettings(cluster_keys=keys))
