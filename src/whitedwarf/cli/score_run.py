"""`whitedwarf score run`: how likely a model finds the official continuations (spec/product.md E.4)."""

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.steering_flags import steered, steering_wish
from whitedwarf.config import DEFAULT_MODEL, DEFAULT_STEERING, ModelSettings, SteeringSettings
from whitedwarf.evals.score.case_files import read_manifest
from whitedwarf.evals.score.measuring import Forcing, Score, measured, read_cases, total_of
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
    files = [manifest, *(path for case in cases for path in (case.prompt, case.continuation, case.response))]
    check_output(out, files)
    loaded = steered(open_model(model), wish)
    check_output(out, loaded.gguf.paths)
    scores = _scores(loaded, read_cases(cases, loaded.tokenizer(), loaded.context_length))
    write_text(out, table_text(scores))
    total = total_of(scores)
    if as_json:
        print(json.dumps({"model": loaded.gguf.paths[0].name, "table": str(out)} | total.as_json()))
        return
    print(
        f"cases={total.cases} tokens={total.tokens} nll={total.nll:.6f} avg_nll={total.average_nll:.6f} "
        f"first_match={total.first_matches}/{total.cases} avg_greedy_lcp={total.average_lcp:.3f}",
        file=sys.stderr,
    )


def _scores(loaded: LoadedModel, cases: list[Forcing]) -> list[Score]:
    progress = ProgressLine()
    found = []
    for score in measured(loaded.transformer, cases, loaded.chunk_tokens):
        found.append(score)
        if progress.is_terminal or len(found) % 10 == 0:
            progress.show(f"{len(found)}/{len(cases)} cases")
    progress.clear()
    return found
