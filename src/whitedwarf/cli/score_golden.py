"""`whitedwarf score golden`: golden vectors of a model, to hold later builds of it to (spec/product.md E.6)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.score_vectors import prompt_of
from whitedwarf.cli.scoring import check_fits
from whitedwarf.config import DEFAULT_MODEL, POSITIVE, ModelSettings
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.evals.score.case_files import check_different, check_id
from whitedwarf.evals.score.checking import golden_case, golden_ids
from whitedwarf.evals.score.golden_vectors import GoldenCase, Mode, golden_text, read_golden
from whitedwarf.evals.text_file import read_text

DEFAULT_TOP = 64


def command(
    *prompts: Path,
    out: Annotated[Path, Parameter(name=("--out", "-o"))],
    again: Annotated[Path | None, Parameter(name="--from")] = None,
    mode: Mode = "chat",
    frontier: Annotated[tuple[int, ...], Parameter(validator=POSITIVE)] = (),
    top: Annotated[int, Parameter(validator=Number(gte=1, lte=100_000))] = DEFAULT_TOP,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Write the likeliest tokens after the first tokens of some texts, as `score vectors` checks them.

    Parameters
    ----------
    prompts
        Files with a text each; the case is named by the file.
    out
        The vector file (.vec). Prompts in its folder, or below, are named as seen from there.
    again
        Make the cases of this vector file again, with this model, instead of naming prompts. May be the same file.
    mode
        text: tokenised as it is; rendered: with its control tokens; chat: as a user's message.
    frontier
        How many tokens of each text are read; repeatable, for a case each. Default: all.
    top
        So many likeliest tokens; fewer than 64 leave checks out.
    """
    if bool(prompts) == (again is not None):
        raise UsageError("give prompts, or --from FILE.vec to make its cases again")
    check_output(out, prompts)
    cases = [] if again is None else read_golden(again)
    loaded = open_model(model)
    check_output(out, loaded.gguf.paths)
    if again is None:
        asked = _new_cases(prompts, out, mode, frontier, loaded)
    else:
        context, tokenizer = loaded.context_length, loaded.tokenizer()
        asked = [(replace(case, context=context), prompt_of(case, again, tokenizer, context)) for case in cases]
    count = min(top, loaded.transformer.config.vocab_size)
    made = [golden_case(loaded.paced, case, ids, loaded.chunk_tokens, count) for case, ids in asked]
    about = f"Likeliest tokens of {loaded.gguf.paths[0].name}, by `whitedwarf score golden`."
    write_text(out, golden_text(made, about))
    print(f"{out}: {len(made)} cases")


def _new_cases(
    prompts: Sequence[Path], out: Path, mode: Mode, frontiers: tuple[int, ...], loaded: LoadedModel
) -> list[tuple[GoldenCase, list[int]]]:
    check_different((path.stem for path in prompts), "the prompts")
    tokenizer = loaded.tokenizer()
    found = []
    for path in prompts:
        ids = golden_ids(tokenizer, mode, read_text(path))
        if not ids:
            raise FileFormatError(f"{path} is empty; expected a text")
        for frontier in frontiers or (len(ids),):
            if frontier > len(ids):
                raise UsageError(f"--frontier {frontier}: {path} has {len(ids)} tokens")
            check_fits(frontier, loaded.context_length)
            name = path.stem if len(frontiers) < 2 else f"{path.stem}-{frontier}"
            case_id = check_id(name, str(path))
            found.append((GoldenCase(case_id, mode, loaded.context_length, frontier, _named(path, out), ()), ids))
    return found


def _named(path: Path, out: Path) -> str:
    """As seen from the vector file's folder where it lies there, else in full."""
    whole, folder = path.resolve(), out.parent.resolve()
    name = whole.relative_to(folder).as_posix() if whole.is_relative_to(folder) else whole.as_posix()
    if len(name.split()) != 1:
        raise UsageError(f"{name}: vector files name prompts without blanks; rename it")
    return name
