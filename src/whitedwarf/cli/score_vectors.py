"""`whitedwarf score vectors`: a model held to vectors, official ones or golden ones of ours (spec/product.md E.6)."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.cli.loading import LoadedModel, note, open_model
from whitedwarf.cli.scoring import check_fits
from whitedwarf.config import DEFAULT_MODEL, ModelSettings
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.evals.score.case_files import found_from
from whitedwarf.evals.score.checking import MAX_DELTA, ByteTokens, Verdict, check_golden, check_official, golden_ids
from whitedwarf.evals.score.golden_vectors import GoldenCase, read_golden
from whitedwarf.evals.score.measuring import chat_ids
from whitedwarf.evals.score.official_vectors import VectorCase, read_official
from whitedwarf.evals.score.vector_lines import is_golden
from whitedwarf.evals.text_file import read_text
from whitedwarf.prompt.tokenizer import Tokenizer

Ids = list[int]


def command(
    file: Path,
    /,
    *,
    max_delta: Annotated[float | None, Parameter(validator=Number(gte=0))] = None,
    skip: tuple[str, ...] = (),
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    model: ModelSettings = DEFAULT_MODEL,
) -> int:
    """Check a model against vectors; the exit code is 0 when every case holds, otherwise 1.

    Official vectors (steps with candidates, as bytes): each step's token must be the likeliest here, and each candidate
    as likely, within --max-delta. Golden vectors (likeliest tokens, by id): the same likeliest token, 4 of 5, 15 of 20
    and 40 of 64 in common, and the logits of the first 20 within 8.

    Parameters
    ----------
    file
        The vector file, of either kind; prompts are looked for beside it and in the folders above it.
    max_delta
        How far a log-probability of an official candidate may be off. Default: 4.
    skip
        Leave this case out; repeatable.
    as_json
        One JSON object instead of lines.
    """
    golden = is_golden(file)
    if golden and max_delta is not None:
        raise UsageError("--max-delta is for official vectors, these are golden ones: leave it out")
    cases: Sequence[VectorCase] | Sequence[GoldenCase] = read_golden(file) if golden else read_official(file)
    if unknown := set(skip) - {case.id for case in cases}:
        raise UsageError(f"--skip {min(unknown)}: there is no such case in {file}")
    if all(case.id in skip for case in cases):
        raise UsageError("every case is left out by --skip; leave one in")
    loaded = open_model(model)
    verdicts = []
    for verdict in _verdicts(loaded, cases, file, skip, MAX_DELTA if max_delta is None else max_delta):
        verdicts.append(verdict)
        if not as_json:
            print("\n".join(verdict.lines()), flush=True)
    failed = sum(not verdict.holds for verdict in verdicts)
    if as_json:
        print(json.dumps({"holds": not failed, "cases": [verdict.as_json() for verdict in verdicts]}))
    if failed:
        note(f"{failed} of {len(verdicts)} cases do not hold")
    return 1 if failed else 0


def _verdicts(
    loaded: LoadedModel,
    cases: Sequence[VectorCase] | Sequence[GoldenCase],
    file: Path,
    skip: tuple[str, ...],
    max_delta: float,
) -> Iterator[Verdict]:
    """Everything that can be refused is refused before the first one."""
    tokenizer = loaded.tokenizer()
    length, chunk = loaded.context_length, loaded.chunk_tokens
    chosen = [(case, prompt_of(case, file, tokenizer, length)) for case in cases if case.id not in skip]
    tokens = ByteTokens(tokenizer)
    for case, ids in chosen:
        if isinstance(case, VectorCase):
            yield check_official(loaded.paced, tokens, case, ids, chunk, max_delta)
        else:
            yield check_golden(loaded.paced, case, ids, chunk)


def prompt_of(case: VectorCase | GoldenCase, file: Path, tokenizer: Tokenizer, context_length: int) -> Ids:
    """The case's prompt as ids, as far as it is read, and checked against the context."""
    path = found_from(file.parent, case.prompt)
    if not path.is_file():
        raise UsageError(f"{file}: {case.id} needs {case.prompt}, which is neither beside it nor in a folder above")
    text = read_text(path)
    if isinstance(case, VectorCase):
        ids = chat_ids(tokenizer, text)
        check_fits(len(ids) + len(case.steps), context_length)
        return ids
    ids = golden_ids(tokenizer, case.mode, text)
    if len(ids) < case.frontier:
        raise FileFormatError(f"{path} has {len(ids)} tokens here, {case.id} reads {case.frontier}: another tokenizer?")
    check_fits(case.frontier, context_length)
    return ids[: case.frontier]
