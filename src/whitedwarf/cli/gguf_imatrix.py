"""`whitedwarf gguf imatrix`: what a model's weights are multiplied with, over a file of prompts (product.md E.2)."""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.calibration.collect import Collection, commit, planned, run_prompt
from whitedwarf.calibration.dataset import block_ids, read_blocks
from whitedwarf.calibration.importance import Coverage, coverage, make_imatrix
from whitedwarf.calibration.sums_file import About, read_sums, sums_path, write_sums
from whitedwarf.cli.loading import LoadedModel, note, open_model
from whitedwarf.cli.machine import available_threads
from whitedwarf.cli.one_line import one_line
from whitedwarf.cli.output_file import check_output
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.prompt_text import read_text
from whitedwarf.cli.termination import held_signals, tidy_termination
from whitedwarf.config import DEFAULT_MODEL, POSITIVE, ModelSettings
from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.gguf.digests import header_digest
from whitedwarf.gguf.imatrix import ImatrixFormat, write_imatrix
from whitedwarf.gguf.names import canonical_name
from whitedwarf.ops.base import Ops
from whitedwarf.ops.collecting import CollectingOps

SHOWN_S = 0.2  # between two states on a terminal
LOGGED_S = 30.0  # elsewhere


def command(
    dataset: Path,
    /,
    *,
    out: Annotated[Path, Parameter(name=("--out", "-o"))],
    format: ImatrixFormat | None = None,
    max_prompts: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    max_tokens: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    save_every: Annotated[int, Parameter(validator=Number(gte=0))] = 50,
    overwrite: Annotated[bool, Parameter(negative=())] = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Collect an importance matrix: for each column of the experts, how strongly it is driven.

    Reads each prompt from an empty state and writes the mean squares for `whitedwarf gguf quantize --imatrix` and
    others. Interrupted, it keeps what it has beside the output; the same command then goes on.

    Parameters
    ----------
    dataset
        Rendered chats behind lines that begin with ===== WHITEDWARF_PROMPT or ===== DS4_IMATRIX_PROMPT, as
        `whitedwarf gguf calibrate` writes them; a file without such lines is one prompt.
    out
        The file to write.
    format
        dat: routed experts, as the original has it; gguf: llama.cpp's, with all other matrices, too. Default: by the
        name of the file.
    max_prompts
        Read at most so many prompts. Default: all.
    max_tokens
        Read at most so many tokens; the prompt in which they end is cut. Longer prompts than --ctx always are.
    save_every
        Save the sums after so many prompts; 0 = only when interrupted.
    overwrite
        Replace the file if it is there already.
    as_json
        One JSON object with what was read and which experts were never picked.
    """
    written = format or ("gguf" if out.suffix == ".gguf" else "dat")
    _check_out(out, dataset, is_wanted=overwrite)
    text = read_text(str(dataset))
    blocks = read_blocks(text, str(dataset))
    loaded, collector = _open(model, is_dense=written == "gguf")
    check_output(out, loaded.gguf.paths)
    tokenizer = loaded.tokenizer()
    prompts = [block_ids(tokenizer, block)[: loaded.context_length] for block in blocks]
    about = _about(loaded, text, written)
    found = read_sums(sums_path(out), about)
    _check_begun(found, prompts, max_prompts, max_tokens, sums_path(out))
    run = _Run(loaded, collector, found, sums_path(out), about)
    run.over(list(planned(prompts, found.prompts, found.tokens, max_prompts, max_tokens)), save_every)
    names = frozenset(map(canonical_name, loaded.gguf.tensors))
    longest = min(loaded.context_length, max(map(len, prompts)))
    imatrix = make_imatrix(found.moments, names, dataset.name, found.prompts, longest)
    with run.kept_on_failure():
        check_output(out, [dataset])
        _check_is_new(out, is_wanted=overwrite)  # nothing that has appeared meanwhile is replaced
        write_imatrix(out, imatrix, written)
    sums_path(out).unlink(missing_ok=True)
    _report(out, run, coverage(found.moments), len(imatrix.entries), as_json=as_json)


def _check_out(out: Path, dataset: Path, *, is_wanted: bool) -> None:
    check_output(out, [dataset])
    check_output(sums_path(out), [dataset])
    _check_is_new(out, is_wanted=is_wanted)


def _check_begun(
    found: Collection, prompts: Sequence[Sequence[int]], max_prompts: int | None, max_tokens: int | None, sums: Path
) -> None:
    """UsageError where sums of an earlier run are of more, or of other parts, than this one would have read."""
    most = len(prompts) if max_prompts is None else min(max_prompts, len(prompts))
    tokens = sum(map(len, prompts[: found.prompts]))
    expected = tokens if max_tokens is None else min(tokens, max_tokens)
    if found.prompts > most or found.tokens != expected:
        raise UsageError(
            f"{sums} has {found.tokens} tokens of {found.prompts} prompts, which are not the first ones of what "
            "--max-prompts and --max-tokens ask for: give those of before, or delete it, or choose another --out"
        )


def _check_is_new(out: Path, *, is_wanted: bool) -> None:
    if out.exists() and not is_wanted:
        raise UsageError(f"{out}: exists already. Choose another name, or replace it with --overwrite.")


def _open(model: ModelSettings, *, is_dense: bool) -> tuple[LoadedModel, CollectingOps]:
    made: list[CollectingOps] = []

    def wrap(inner: Ops) -> Ops:
        threads = model.threads or available_threads()
        collector, ops = CollectingOps.around(inner, is_dense=is_dense, threads=threads)
        made.append(collector)
        return ops

    if model.backend not in ("auto", "cpu", "reference"):
        raise UsageError(f"importance is collected on the CPU; got --backend {model.backend}: leave it out")
    return open_model(replace(model, backend="cpu") if model.backend == "auto" else model, wrap=wrap), made[0]


def _about(loaded: LoadedModel, text: str, written: ImatrixFormat) -> About:
    return {
        "model": header_digest(loaded.gguf),
        "model bytes": sum(loaded.gguf.shard_bytes),
        "dataset": hashlib.sha256(text.encode()).hexdigest(),
        "context": loaded.context_length,
        "kv cache": loaded.settings.kv_cache,
        "quality": loaded.settings.quality,
        "format": written,
    }


class _Run:
    """Prompts one after the other; what is complete is saved now and then, and when it is interrupted."""

    def __init__(
        self, loaded: LoadedModel, collector: CollectingOps, found: Collection, sums: Path, about: About
    ) -> None:
        self.found = found
        self.resumed_prompts = found.prompts
        self.seconds = 0.0
        self._resumed_tokens = found.tokens
        self._paced = loaded.paced
        self._loaded, self._collector, self._sums, self._about = loaded, collector, sums, about

    @property
    def tokens_per_s(self) -> float:
        return (self.found.tokens - self._resumed_tokens) / self.seconds if self.seconds else 0.0

    def over(self, prompts: Sequence[Sequence[int]], save_every: int) -> None:
        """Run these, which come behind those that are done."""
        if self.resumed_prompts:
            note(f"going on behind {self.resumed_prompts} prompts of {self._sums}")
        progress = _Progress(self.resumed_prompts + len(prompts), sum(map(len, prompts)))
        with self.kept_on_failure(progress), tidy_termination():
            for number, ids in enumerate(prompts, 1):
                self._read(ids, progress)
                if save_every and number % save_every == 0 and number < len(prompts):
                    self._save()

    @contextmanager
    def kept_on_failure(self, progress: "_Progress | None" = None) -> Iterator[None]:
        """Whatever ends what is inside, complete prompts are saved."""
        try:
            yield
        except (Exception, KeyboardInterrupt, SystemExit):
            if progress is not None:
                progress.clear()
            self._keep()
            raise
        finally:
            if progress is not None:
                progress.clear()

    def _read(self, ids: Sequence[int], progress: "_Progress") -> None:
        start_s = time.monotonic()
        show = partial(progress.show, self.found.prompts + 1)
        run_prompt(self._paced, self._collector, ids, self._loaded.chunk_tokens, show)
        with held_signals():
            commit(self.found, self._collector, len(ids))
            self.seconds += time.monotonic() - start_s
        progress.prompt_done(len(ids))

    def _save(self) -> None:
        with held_signals():
            write_sums(self._sums, self.found, self._about)

    def _keep(self) -> None:
        if self.found.prompts > self.resumed_prompts:
            try:
                self._save()
            except WhitedwarfError as error:  # what made us stop is told behind it
                note(str(error))
                return
        if self.found.prompts:
            note(f"{self.found.prompts} prompts are kept in {self._sums}; the same command goes on behind them")


class _Progress:
    """Prompts, tokens, speed and time that is left, now and then."""

    def __init__(self, num_prompts: int, num_tokens: int) -> None:
        self._line = ProgressLine()
        self._num_prompts, self._num_tokens, self._done = num_prompts, num_tokens, 0
        self._start_s = self._shown_s = time.monotonic()

    def show(self, prompt: int, tokens_of_it: int) -> None:
        """So many tokens of this prompt have been read."""
        now_s = time.monotonic()
        if now_s - self._shown_s < (SHOWN_S if self._line.is_terminal else LOGGED_S):
            return
        self._shown_s = now_s
        read = self._done + tokens_of_it
        rate = read / (now_s - self._start_s)
        minutes = (self._num_tokens - read) / rate / 60
        text = f"prompt {prompt}/{self._num_prompts}, {read}/{self._num_tokens} tokens, {rate:.0f} t/s"
        self._line.show(f"{text}, {minutes:.0f} min left")

    def prompt_done(self, num_tokens: int) -> None:
        self._done += num_tokens

    def clear(self) -> None:
        self._line.clear()


def _report(out: Path, run: _Run, covered: list[Coverage], num_entries: int, *, as_json: bool) -> None:
    never = sum(len(layer.never) for layer in covered)
    experts = sum(layer.experts for layer in covered)
    if as_json:
        document = {
            "file": str(out),
            "entries": num_entries,
            "prompts": run.found.prompts,
            "resumed_prompts": run.resumed_prompts,
            "tokens": run.found.tokens,
            "tokens_per_s": round(run.tokens_per_s, 3),
            "seconds": round(run.seconds, 3),
            "experts": experts,
            "experts_never_seen": never,
            "layers": [asdict(layer) for layer in covered],
        }
        print(json.dumps(document))
        return
    print(
        one_line(
            f"{out}: {num_entries} entries from {run.found.prompts} prompts, {run.found.tokens} tokens "
            f"({run.tokens_per_s:.0f} t/s); {experts - never} of {experts} experts seen"
        )
    )
    for layer in covered:
        if layer.never:
            names = ", ".join(map(str, layer.never[:20])) + (", ..." if len(layer.never) > 20 else "")
            print(f"  layer {layer.layer}: {len(layer.never)} of {layer.experts} never seen ({names})")
