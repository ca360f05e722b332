"""`whitedwarf score collect`: what the official model says, for scoring other forms of it (spec/product.md E.4)."""

import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.cli.loading import note
from whitedwarf.cli.output_file import write_bytes
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.termination import tidy_termination
from whitedwarf.config import POSITIVE
from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.evals.score.collecting import Collected, Collection, ThinkingWish, Wish, collect
from whitedwarf.evals.score.endpoint import DEFAULT_ENDPOINT, KEY_VARIABLE, Endpoint, completions_url
from whitedwarf.evals.score.prompts import Prompt, built_in_prompts, read_prompts
from whitedwarf.evals.score.retries import patiently
from whitedwarf.web.endpoint.address import is_overheard
from whitedwarf.web.endpoint.api_key import find_key

DEFAULT_COUNT = 100


def command(
    *,
    out: Annotated[Path, Parameter(name=("--out", "-o"))],
    prompts: Path | None = None,
    endpoint: str = DEFAULT_ENDPOINT,
    model: str = "deepseek-v4-flash",
    count: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    max_tokens: Annotated[int, Parameter(validator=Number(gte=1, lte=100_000))] = 24,
    top_logprobs: Annotated[int, Parameter(validator=Number(gte=0, lte=20))] = 5,
    thinking: ThinkingWish = "disabled",
) -> None:
    """Ask an endpoint for greedy continuations of prompts, and keep them in a folder that `score run` reads.

    The key comes from DEEPSEEK_API_KEY and is written nowhere. What is there already is not asked again.

    Parameters
    ----------
    out
        The folder; made if it is not there.
    prompts
        A folder of *.txt files, a .jsonl file (a text, or an object with id and prompt, on each line), or a text with
        a prompt on each line. Default: 106 prompts of our own.
    endpoint
        An API's address, as DeepSeek's; any server with chat completions of OpenAI's shape.
    model
        The model's name there.
    count
        Take so many prompts, from the first on. Default: 100, or as many as there are.
    max_tokens
        Tokens of each continuation.
    top_logprobs
        Candidates of each token; 0 for servers that tell none.
    thinking
        disabled or enabled: said to the endpoint; omit: nothing is said.
    """
    wish = Wish(completions_url(endpoint), model, max_tokens, top_logprobs, thinking)
    key = find_key(KEY_VARIABLE)
    if key is None and wish.endpoint == completions_url(DEFAULT_ENDPOINT):
        raise UsageError(f"{DEFAULT_ENDPOINT} wants a key: set {KEY_VARIABLE}")
    if key is not None and is_overheard(wish.endpoint):
        note(f"the key from {KEY_VARIABLE} goes to {endpoint} without encryption; unset it if that server needs none")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is no folder; give the name of one")
    wanted = _wanted(prompts, count)
    asked = Endpoint(wish.endpoint, key)
    progress = ProgressLine()

    def say(text: str) -> None:
        progress.clear()
        note(text)

    def step(done: int) -> None:
        if progress.is_terminal or done % 10 == 0:
            progress.show(f"{done}/{len(wanted)} prompts")

    with tidy_termination():
        found = collect(
            wanted,
            wish,
            Collection(out, write_bytes),
            lambda body: patiently(lambda: asked.ask(body), time.sleep, say),
            say,
            step,
        )
    progress.clear()
    _tell(found, out, len(wanted))


def _wanted(path: Path | None, count: int | None) -> list[Prompt]:
    if path is not None and not path.exists():
        raise UsageError(f"--prompts {path}: there is no such file or folder")
    prompts = built_in_prompts() if path is None else read_prompts(path)
    if count is not None and count > len(prompts):
        raise UsageError(f"--count {count}: there are {len(prompts)} prompts; give at most that")
    return prompts[: count or DEFAULT_COUNT]


def _tell(found: Collected, out: Path, wanted: int) -> None:
    before = f", {found.present} of them from before" if found.present else ""
    print(f"{out}: {found.cases} of {wanted} continuations{before}")
    if found.without:
        raise WhitedwarfError(
            f"{len(found.without)} prompts were not answered ({', '.join(found.without[:5])}"
            f"{', ...' if len(found.without) > 5 else ''}); the same command asks for them again"
        )
