"""`whitedwarf perplexity`: how well the model predicts a text it is fed token by token (spec/product.md A.4)."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from whitedwarf.cli.cluster_flags import over_cluster
from whitedwarf.cli.loading import open_model
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.prompt_text import read_text
from whitedwarf.cli.scoring import logit_chunks
from whitedwarf.cli.steering_flags import steered, steering_wish
from whitedwarf.config import (
    DEFAULT_CLUSTER,
    DEFAULT_MODEL,
    DEFAULT_STEERING,
    POSITIVE,
    ClusterSettings,
    ModelSettings,
    SteeringSettings,
)
from whitedwarf.errors import UsageError
from whitedwarf.evals.score.likelihood import nll_of
from whitedwarf.model.base import Model

PREFIX_TOKENS = 32  # context only, not scored
CHUNK_TOKENS = 128  # every row brings a whole vocabulary of logits


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Natural logarithms; `tokens` counts the text's, `scored` those whose prediction was judged."""

    tokens: int
    scored: int
    nll: float

    @property
    def average_nll(self) -> float:
        return self.nll / self.scored

    def __str__(self) -> str:
        return (
            f"tokens={self.tokens} scored={self.scored} nll={self.nll:.9f} "
            f"avg_nll={self.average_nll:.9f} ppl={math.exp(self.average_nll):.9f}"
        )


def command(
    file: str,
    /,
    *,
    max_tokens: Annotated[int | None, Parameter(name=("--tokens", "-n"), validator=POSITIVE)] = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    steering: SteeringSettings = DEFAULT_STEERING,
    model: ModelSettings = DEFAULT_MODEL,
    cluster: ClusterSettings = DEFAULT_CLUSTER,
) -> None:
    """Score a text: its first 32 tokens are given, each later one is predicted from all before it.

    Parameters
    ----------
    file
        UTF-8 text, taken as ordinary text.
    max_tokens
        Score at most so many tokens. Default: all that the context holds.
    as_json
        One JSON object instead of a line.
    """
    wish = steering_wish(steering)
    text = read_text(file)
    loaded = steered(open_model(over_cluster(model, cluster)), wish)
    ids = loaded.tokenizer().encode(text)
    if len(ids) <= PREFIX_TOKENS:
        raise UsageError(f"{file} has {len(ids)} tokens: expected more than the {PREFIX_TOKENS} that are not scored")
    scored = min(len(ids) - PREFIX_TOKENS, loaded.context_length - PREFIX_TOKENS, max_tokens or len(ids))
    if scored < 1:
        raise UsageError(f"a context of {loaded.context_length} leaves nothing to score: raise --ctx")
    result = measure(loaded.paced, ids[: PREFIX_TOKENS + scored], len(ids))
    if as_json:
        print(json.dumps(asdict(result) | {"avg_nll": result.average_nll, "ppl": math.exp(result.average_nll)}))
    else:
        print(result)


def measure(model: Model, ids: list[int], num_tokens: int) -> Perplexity:
    """Score all of `ids` beyond the prefix."""
    progress = ProgressLine()
    nll, first = 0.0, 0
    for done, logits in logit_chunks(model, ids[:-1], CHUNK_TOKENS):
        targets = np.array(ids[first + 1 : done + 1])
        nll += float(nll_of(logits, targets)[max(0, PREFIX_TOKENS - 1 - first) :].sum())
        first = done
        progress.show(f"{done + 1}/{len(ids)} tokens ({100 * (done + 1) / len(ids):.1f}%)")
    progress.clear()
    return Perplexity(num_tokens, len(ids) - PREFIX_TOKENS, nll)
