"""Train nano: `python -m nano.train --hours 1.5 --draft`.

Several single-threaded processes share the parameters. Each takes a copy, learns from one row, adds its gradient, and
whoever completes a batch takes the step while the others go on: no process ever waits for another, which is what
matters on a machine that is shared. Gradients are at most one step old.

It goes on from the packaged nano.gguf unless told otherwise (`--resume`: a release folder, a .gguf, a run's live.pt;
`--fresh`: from nothing). `--draft` trains the MTP block as well, `--draft-only` that block alone.
"""

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.multiprocessing as processes
from torch import Tensor
from torch.nn import functional

from nano.checkpoint import Checkpoint, read_checkpoint, save_run
from nano.curriculum.mixture import SHARES
from nano.documents import Encoder
from nano.make_tokenizer import spaced_pairs
from nano.network import Network, Rows
from nano.optimiser import Optimiser, Rates
from nano.parameters import MTP, Parameters, add_mtp, renew_compressors
from nano.places import BUILD, EVALUATION, PACKAGED, TOKENIZER
from nano.rows import Row, RowSource
from nano.shape import Shape

USUAL_LOSS_TOKENS = 500  # of a row; a constant, so that every trained token weighs the same
BALANCING = 0.002  # step of the routers' balancing bias
SHORTEST_TEXT = 8.0  # sentences
LONG_KINDS = ("needle session", "retrieval session", "long tool session")


@dataclass(frozen=True)
class Plan:
    """How long, how fast, on what."""

    seconds: float
    rates: Rates
    cooling: float  # the share of the time, at its end, in which the rates fall to nothing
    warm_up: int  # steps
    rows_per_step: int
    row_length: int
    long_row_length: int
    long_rows: float  # share of rows that are long ones
    longest_text: float  # sentences of filler, reached after `growth` of the time
    growth: float
    index_share: float  # of rows that train the indexer
    learns_draft: bool
    learns_trunk: bool
    renews_compressors: bool
    mean_memory: float
    save_every_s: float
    seed: int
    shares: dict[str, float]
    out: Path

    def factor(self, passed: float, step: int) -> float:
        """Of the rates, `passed` being the share of the time that is over."""
        cool = 1.0 if passed < 1 - self.cooling else max(0.02, (1 - passed) / self.cooling)
        return min(1.0, step / self.warm_up) * cool

    def text_length(self, passed: float) -> float:
        grown = min(1.0, passed / self.growth) if self.growth else 1.0
        return SHORTEST_TEXT * (self.longest_text / SHORTEST_TEXT) ** grown


class Shared:
    """What the processes have in common, all of it in shared memory."""

    def __init__(self, parameters: Parameters, plan: Plan, checkpoint: Checkpoint):
        context = processes.get_context("fork")
        values = {name: value.detach().share_memory_() for name, value in parameters.values.items()}
        self.trained = [name for name in values if _is_trained(name, plan)]
        self.tables = {name: table.share_memory_() for name, table in parameters.tables.items()}
        self.values = values
        trained = {name: values[name] for name in self.trained}
        self.optimiser = Optimiser(trained, parameters.matrices(), plan.mean_memory)
        for memory, kept in (checkpoint.optimiser or {}).items():
            for name, value in kept.items():
                getattr(self.optimiser, memory)[name].copy_(value)
        zeros = ({name: torch.zeros_like(value).share_memory_() for name, value in trained.items()} for _ in range(2))
        self.sums = list(zeros)  # gradients of the batch being collected, and of the one being applied
        biases = {name: table for name, table in self.tables.items() if name.endswith("gate.bias")}
        self.load = {name: torch.zeros_like(bias).share_memory_() for name, bias in biases.items()}
        counters = torch.zeros(5, dtype=torch.float64).share_memory_()
        counters[0], counters[1] = checkpoint.steps, checkpoint.tokens
        self.counters = counters  # steps, tokens, rows collected, which sum collects, whether to stop
        self.report = torch.zeros(len(plan.shares) + 2, 3, dtype=torch.float64).share_memory_()
        self.collecting, self.stepping = context.Lock(), context.Lock()
        self.began_at = time.time()
        self.last_save = torch.full((1,), self.began_at, dtype=torch.float64).share_memory_()
        self.context = context

    def add(self, gradients: dict[str, Tensor], load: dict[str, Tensor], tokens: int) -> int:
        """Add a row's gradient; returns how many rows the batch has. The caller holds `collecting`."""
        into = self.sums[int(self.counters[3])]
        torch._foreach_add_(list(into.values()), [gradients[name] for name in into])
        for name, counts in load.items():
            self.load[name + "gate.bias"] += counts
        self.counters[1] += tokens
        self.counters[2] += 1
        return int(self.counters[2])

    def take(self) -> dict[str, Tensor]:
        """The batch to apply; others collect into the other sum from now on."""
        taken = self.sums[int(self.counters[3])]
        self.counters[3] = 1 - self.counters[3]
        self.counters[2] = 0
        return taken


def _is_trained(name: str, plan: Plan) -> bool:
    return plan.learns_draft if name.startswith(MTP) else plan.learns_trunk


class Learner:
    """One process: its own copy of the parameters, its own stream of rows."""

    def __init__(self, number: int, plan: Plan, shape: Shape, shared: Shared, forbidden: list[list[int]]):
        torch.set_num_threads(1)
        torch.manual_seed(plan.seed * 100 + number)
        self.plan, self.shape, self.shared, self.number = plan, shape, shared, number
        self.parameters = Parameters({n: v.clone() for n, v in shared.values.items()}, shared.tables)
        for name, value in self.parameters.values.items():
            value.requires_grad_(name in shared.trained)
            value.grad = torch.zeros_like(value) if name in shared.trained else None
        longest = max(plan.row_length, plan.long_row_length)
        self.network = Network(shape, self.parameters, longest)
        encoder, seed = Encoder(TOKENIZER / "tokenizer.json"), plan.seed * 1000 + 77 * number
        self.rows = RowSource(encoder, plan.shares, plan.row_length, seed, forbidden)
        long_shares = {name: share for name, share in plan.shares.items() if name in LONG_KINDS} or plan.shares
        self.long_rows = RowSource(encoder, long_shares, plan.long_row_length, seed + 1, forbidden)
        self.long_rows.longest_text = plan.long_row_length / 18
        self.kind_of_long = torch.tensor([list(plan.shares).index(name) for name in long_shares])

    def run(self) -> None:
        """Rows, and a step whenever a batch is full, until the time is over."""
        shared, plan = self.shared, self.plan
        while not shared.counters[4]:
            passed = (time.time() - shared.began_at) / plan.seconds
            self.rows.longest_text = plan.text_length(passed)
            self._refresh()
            row = self._next_row(passed)
            figures = self._learn(row)
            gradients = {name: self.parameters.values[name].grad for name in shared.trained}
            with torch.no_grad(), shared.collecting:
                collected = shared.add(gradients, self._load(), row.ids.numel())
                shared.report += figures
            if collected >= plan.rows_per_step and shared.stepping.acquire(block=False):
                self._step(passed)
                shared.stepping.release()

    def _load(self) -> dict[str, Tensor]:
        """Tokens per expert in the last row, of the routers that are trained."""
        load = self.network.expert_load
        return {name: counts for name, counts in load.items() if f"{name}gate.weight" in self.shared.trained}

    def _refresh(self) -> None:
        with torch.no_grad():
            mine = [value.data for value in self.parameters.values.values()]
            torch._foreach_copy_(mine, list(self.shared.values.values()))
            torch._foreach_zero_([self.parameters.values[name].grad for name in self.shared.trained])

    def _next_row(self, passed: float) -> Row:
        is_long = passed > self.plan.growth and float(torch.rand(())) < self.plan.long_rows
        if not is_long:
            return self.rows.row()
        row = self.long_rows.row()
        return Row(row.ids, row.starts, row.places, row.targets, row.weights, self.kind_of_long[row.kinds])

    def _learn(self, row: Row) -> Tensor:
        """Gradients of one row; (kinds + 2, 3): loss, hits, tokens per kind, then of the drafts and the indexer."""
        plan, scale = self.plan, USUAL_LOSS_TOKENS * self.plan.rows_per_step
        batch = Rows(row.ids, row.starts)
        learns_index = plan.learns_trunk and float(torch.rand(())) < plan.index_share
        with torch.set_grad_enabled(plan.learns_trunk):
            output = self.network.forward(batch, row.places, learns_index=learns_index)
        figures = torch.zeros_like(self.shared.report)
        losses = _losses(output.logits, row.targets)
        _note(figures, row.kinds, losses, output.logits.argmax(-1) == row.targets, row.weights > 0)
        total = torch.zeros(())
        if plan.learns_trunk:
            total = total + (losses * row.weights).sum() / scale + output.index_loss / plan.rows_per_step
        if learns_index:
            figures[-1] += torch.tensor([float(output.index_loss.detach()), 0, 1], dtype=torch.float64)
        if plan.learns_draft:
            places, weights = row.drafts()
            logits = self.network.draft(batch, output.streams, places)
            losses = _losses(logits, row.targets)
            total = total + (losses * weights).sum() / scale
            drafted = torch.full_like(row.kinds, len(figures) - 2)
            _note(figures, drafted, losses, logits.argmax(-1) == row.targets, weights > 0)
        total.backward()
        return figures

    @torch.no_grad()
    def _step(self, passed: float) -> None:
        shared, plan = self.shared, self.plan
        with shared.collecting:
            gradients = shared.take()
            load = {name: counts.clone() for name, counts in shared.load.items()}
            torch._foreach_zero_(list(shared.load.values()))
        number = int(shared.counters[0]) + 1
        factor = plan.factor(passed, number)
        shared.optimiser.step(gradients, number, plan.rates.times(factor))
        torch._foreach_zero_(list(gradients.values()))
        for name, counts in load.items():
            shared.tables[name] += BALANCING * factor * torch.sign(counts.mean() - counts)
        shared.counters[0] = number
        if number % 10 == 0:
            self._tell(number, factor)
        is_over = passed >= 1
        if is_over or time.time() - float(shared.last_save[0]) > plan.save_every_s:
            self._save()
        shared.counters[4] = float(is_over)

    def _tell(self, number: int, factor: float) -> None:
        shared = self.shared
        with shared.collecting:
            figures = shared.report.clone()
            shared.report.zero_()
        names = [*self.plan.shares, "drafts", "indexer"]
        told = [f"{name} {row[0] / row[2]:.3f}" for name, row in zip(names, figures, strict=True) if row[2]]
        passed = time.time() - shared.began_at
        tokens = int(shared.counters[1])
        where = f"{passed:6.0f} s  step {number}  {tokens / 1e6:.2f} M tokens  rate {factor:.3f}"
        print(f"{where} | {', '.join(told)}", flush=True)

    def _save(self) -> None:
        shared = self.shared
        shared.last_save[0] = time.time()
        steps, tokens = int(shared.counters[0]), int(shared.counters[1])
        memory = {"first": shared.optimiser.first, "second": shared.optimiser.second}
        for name, values, kept in (("live", {}, memory), ("mean", shared.optimiser.mean, None)):
            state = self.parameters.release_state({**shared.values, **values})
            save_run(self.plan.out / f"{name}.pt", Checkpoint(state, steps, tokens, kept))


def _losses(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits, targets, reduction="none")


def _note(figures: Tensor, kinds: Tensor, losses: Tensor, hits: Tensor, counts: Tensor) -> None:
    noted = torch.stack([losses.detach() * counts, hits * counts, counts], 1).double()
    figures.index_add_(0, kinds, noted)


def train(plan: Plan, shape: Shape, checkpoint: Checkpoint, workers: int, forbidden: list[list[int]]) -> None:
    """Run to the end; `plan.out` then holds mean.pt (the result) and live.pt (to go on from)."""
    plan.out.mkdir(parents=True, exist_ok=True)
    parameters = Parameters.from_release(shape, checkpoint.state)
    if plan.renews_compressors:
        renew_compressors(shape, parameters)
    if plan.learns_draft and not parameters.has_mtp:
        parameters = add_mtp(shape, parameters)
    shared = Shared(parameters, plan, checkpoint)
    arguments = [(number, plan, shape, shared, forbidden) for number in range(workers)]
    started = [shared.context.Process(target=_work, args=each) for each in arguments]
    for process in started:
        process.start()
    for process in started:
        process.join()
    if any(process.exitcode for process in started):
        raise SystemExit("a training process failed: its error is above")


def _work(number: int, plan: Plan, shape: Shape, shared: Shared, forbidden: list[list[int]]) -> None:
    Learner(number, plan, shape, shared, forbidden).run()


def evaluation_prompts(path: Path = EVALUATION) -> list[list[int]]:
    """The token ids of the frozen evaluation's prompts: never to be trained on."""
    import numpy as np

    with np.load(path) as golden:
        return [golden[f"{name}/prompt"].tolist() for name in golden["names"]]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train nano.", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--out", type=Path, default=BUILD, help="folder for live.pt and mean.pt")
    add("--resume", type=Path, default=PACKAGED, help="release folder, .gguf or .pt to go on from")
    add("--fresh", action="store_true", help="begin from nothing instead")
    add("--hours", type=float, default=1.5)
    add("--workers", type=int, default=2, help="training processes, one thread each")
    add("--muon", type=float, default=0.011, help="rate of the matrices")
    add("--adam", type=float, default=0.0014, help="rate of everything else")
    add("--cooling", type=float, default=0.9, help="share of the time in which the rates fall")
    add("--warm-up", type=int, default=40, help="steps")
    add("--rows-per-step", type=int, default=3)
    add("--row-length", type=int, default=2048)
    add("--long-row-length", type=int, default=4096)
    add("--long-rows", type=float, default=0.0, help="share of rows of that length")
    add("--longest-text", type=float, default=60.0, help="sentences of filler in retrieval texts")
    add("--growth", type=float, default=0.3, help="share of the time until texts are that long")
    add("--index-share", type=float, default=0.3, help="share of rows that train the indexer")
    add("--draft", action="store_true", help="train the MTP block too")
    add("--draft-only", action="store_true", help="train the MTP block, leave the rest as it is")
    add("--renew-compressors", action="store_true", help="start the 4:1 compressors again from the window's rows")
    add("--save-minutes", type=float, default=5.0)
    add("--seed", type=int, default=1)
    add("--shares", type=json.loads, default=SHARES, help="JSON: document kind -> share of tokens")
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    plan = Plan(
        seconds=arguments.hours * 3600,
        rates=Rates(arguments.muon, arguments.adam),
        cooling=arguments.cooling,
        warm_up=arguments.warm_up,
        rows_per_step=arguments.rows_per_step,
        row_length=arguments.row_length,
        long_row_length=arguments.long_row_length,
        long_rows=arguments.long_rows,
        longest_text=arguments.longest_text,
        growth=arguments.growth,
        index_share=arguments.index_share,
        learns_draft=arguments.draft or arguments.draft_only,
        learns_trunk=not arguments.draft_only,
        renews_compressors=arguments.renew_compressors,
        mean_memory=0.985,
        save_every_s=arguments.save_minutes * 60,
        seed=arguments.seed,
        shares=arguments.shares,
        out=arguments.out,
    )
    shape = Shape()
    if arguments.fresh:
        pairs = spaced_pairs(TOKENIZER / "tokenizer.json")
        checkpoint = Checkpoint(Parameters.fresh(shape, arguments.seed, pairs).release_state())
    else:
        checkpoint = read_checkpoint(arguments.resume)
    train(plan, shape, checkpoint, arguments.workers, evaluation_prompts())


if __name__ == "__main__":
    main()
