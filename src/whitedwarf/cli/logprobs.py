"""`whitedwarf logprobs`: a greedy answer with the likeliest candidates of each step, as JSON.

The format is the original's --dump-logprobs (spec/model.md 8.4).
"""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.cli.oneshot import prompt_ids
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.prompt_text import required_prompt
from whitedwarf.cli.steering_flags import steered, steering_wish
from whitedwarf.cli.thinking_flags import asked_thinking
from whitedwarf.config import (
    DEFAULT_CHAT,
    DEFAULT_MODEL,
    DEFAULT_STEERING,
    POSITIVE,
    ChatSettings,
    ModelSettings,
    SteeringSettings,
)
from whitedwarf.engine.request import GREEDY, MAX_TOP_LOGPROBS, GenerateOptions, Token
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

Json = dict[str, object]


def command(
    *,
    chat: ChatSettings = DEFAULT_CHAT,
    max_tokens: Annotated[int, Parameter(name=("--tokens", "-n"), validator=POSITIVE)] = 50_000,
    top_k: Annotated[int, Parameter(name="--logprobs-top-k", validator=Number(gte=1, lte=MAX_TOP_LOGPROBS))] = 20,
    out: Path | None = None,
    steering: SteeringSettings = DEFAULT_STEERING,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Answer greedily and write, for each step, the chosen token and the likeliest candidates.

    Parameters
    ----------
    max_tokens
        Most steps; the answer ends after end-of-sentence.
    top_k
        Candidates per step, at most 128.
    out
        File for the JSON. Default: stdout.
    """
    wish = steering_wish(steering)
    if out is not None:
        check_output(out)
    text = required_prompt(chat)
    thinking = asked_thinking(chat)
    loaded = steered(open_model(model), wish)
    if out is not None:
        check_output(out, loaded.gguf.paths)
    tokenizer = loaded.tokenizer()
    prompt = prompt_ids(tokenizer, text, chat.system, thinking.within(loaded.context_length))
    header = {
        "source": "whitedwarf",
        "prompt_tokens": len(prompt),
        "ctx": loaded.context_length,
        "top_k": top_k,
    }
    _write(_document(header, _steps(loaded, tokenizer, prompt, max_tokens, top_k)), out)


def _steps(loaded: LoadedModel, tokenizer: Tokenizer, prompt: list[int], max_tokens: int, top_k: int) -> list[Json]:
    # No stop ids: the step that chose end-of-sentence is wanted with its candidates.
    options = GenerateOptions(max_tokens, sampling=GREEDY, logprobs=top_k)
    end = tokenizer.special_id(SpecialToken.EOS)
    steps: list[Json] = []
    with loaded.engine() as engine, engine.submit(prompt, options) as generation:
        for event in generation:
            if isinstance(event, Token):
                steps.append(_step(tokenizer, len(steps), event))
                if event.id == end:
                    break
    return steps


def _step(tokenizer: Tokenizer, index: int, token: Token) -> Json:
    candidates = [
        {
            "token": describe_token(tokenizer, candidate.id),
            "logit": _rounded(candidate.logit),
            "logprob": _rounded(candidate.logprob),
        }
        for candidate in token.best
    ]
    return {"step": index, "selected": describe_token(tokenizer, token.id), "top_logprobs": candidates}


def describe_token(tokenizer: Tokenizer, token_id: int) -> Json:
    """The bytes are authoritative; text that is not UTF-8 shows each byte as one character."""
    data = tokenizer.token_bytes(token_id)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return {"id": token_id, "text": text, "bytes": list(data)}


def _document(header: Json, steps: list[Json]) -> str:
    """One JSON object with a line for each step."""
    lines = ",\n".join(json.dumps(step) for step in steps)
    return f'{json.dumps(header)[:-1]}, "steps": [\n{lines}\n]}}'


def _rounded(value: float) -> float:
    """Nine significant digits, which is all a float32 has."""
    return float(f"{value:.9g}")


def _write(text: str, out: Path | None) -> None:
    if out is None:
        print(text)
        return
    write_text(out, text + "\n")
