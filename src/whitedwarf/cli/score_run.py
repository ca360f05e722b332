"""`whitedwarf score run`: how likely a model finds the official continuations (spec/product.md E.4)."""

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.loading import LoadedModel, note, open_model
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.steering_flags import steered, steering_wish
from whitedwarf.config import DEFAULT_MODEL, DEFAULT_STEERING, ModelSettings, SteeringSettings
from whitedwarf.evals.score.case_files import manifest_file, read_manifest
from whitedwarf.evals.score.measuring import Forcing, Score, measured, read_cases, total_of
from whitedwarf.evals.score.score_part import ScorePart, cases_digest
from whitedwarf.evals.score.score_table import table_text


def command(
    manifest: Path,
    /,
    *,
    out: Annotated[Path, Parameter(name=("--out", "-o"))],
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    steering: SteeringSettings = DEFAULT_STEERING,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Score continuations: each prompt as a chat without system text and thinking, its continuation's tokens forced.

    When it is stopped, what was measured is in OUT.part, and the same command goes on from there.

    Parameters
    ----------
    manifest
        The manifest.tsv that `score collect` wrote, or its folder.
    out
        The table (.tsv): id, prompt_tokens, target_tokens, nll, avg_nll, first_match, greedy_lcp.
    as_json
        One JSON object with the totals on standard output; otherwise they go to standard error.
    """
    wish = steering_wish(steering)
    cases = read_manifest(manifest)
    files = [
        manifest_file(manifest),
        *(path for case in cases for path in (case.prompt, case.continuation, case.response)),
    ]
    check_output(out, files)
    loaded = steered(open_model(model), wish)
    check_output(out, loaded.gguf.paths)
    forcings = read_cases(cases, loaded.tokenizer(), loaded.context_length)
    part = ScorePart(out, _measured_with(loaded, forcings), write_text)
    check_output(part.path, files)
    scores = _scores(loaded, forcings, part)
    write_text(out, table_text(scores))
    part.remove()
    total = total_of(scores)
    if as_json:
        print(json.dumps({"model": loaded.gguf.paths[0].name, "table": str(out)} | total.as_json()))
        return
    print(
        f"cases={total.cases} tokens={total.tokens} nll={total.nll:.6f} avg_nll={total.average_nll:.6f} "
        f"first_match={total.first_matches}/{total.cases} avg_greedy_lcp={total.average_lcp:.3f}",
        file=sys.stderr,
    )


def _measured_with(loaded: LoadedModel, cases: list[Forcing]) -> dict[str, object]:
    """All that the scores depend on."""
    files = [path.stat() for path in loaded.gguf.paths]
    steering = loaded.transformer.steering
    return {
        "model": str(loaded.gguf.paths[0].resolve()),
        "files": [[file.st_size, file.st_mtime_ns] for file in files],
        "steering": None if steering is None else steering.digest,
        "kv_cache": loaded.settings.kv_cache,
        "quality": loaded.settings.quality,
        "backend": loaded.transformer.ops.name,
        "cases": cases_digest(cases),
    }


def _scores(loaded: LoadedModel, cases: list[Forcing], part: ScorePart) -> list[Score]:
    found = part.scores()
    if found:
        note(f"{part.path} has {len(found)} of {len(cases)} cases: going on from there")
    part.begin(found)
    known = {score.id for score in found}
    progress = ProgressLine()
    for score in measured(loaded.paced, [case for case in cases if case.id not in known], loaded.chunk_tokens):
        part.add(score)
        found.append(score)
        if progress.is_terminal or len(found) % 10 == 0:
            progress.show(f"{len(found)}/{len(cases)} cases")
    progress.clear()
    order = {case.id: number for number, case in enumerate(cases)}
    return sorted(found, key=lambda score: order[score.id])
