"""Logits to one token id: the exact order of product.md 0.6, vectorised.

Pure but for the generator that is passed in: the same logits, options and uniform number give the same token, whoever
else is in the batch. The arithmetic is float64; where the specification leaves an order open, sums run in the order of
the walk and ties prefer the lowest id. Logits that are not finite do not exist for any of this.
"""

import math
import secrets
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whitedwarf.engine.guide import Mask
from whitedwarf.engine.request import SamplingOptions, TokenScore
from whitedwarf.errors import BackendError
from whitedwarf.model.base import Logits

Indices = npt.NDArray[np.intp]
Weights = npt.NDArray[np.float64]

MAX_TOP_K = 1024
FIRST_LOOK = 1024  # how many of the best are sorted before a nucleus (top_p) makes us sort the whole vocabulary
MANY_MASK_BYTES = 4096  # masks that are shorter are sooner taken apart as a whole
FEW_WORDS = 256  # of 64 tokens
_BITS = np.arange(64)
_MASK64 = (1 << 64) - 1
_ZERO_SEED = 0x9E3779B97F4A7C15
_MULTIPLIER = 0x2545F4914F6CDD1D


class XorShift64Star:
    """The generator of product.md 0.6; `uniform` keeps bits 40..63, so 0 <= u < 1 in steps of 2^-24."""

    def __init__(self, seed: int | None = None) -> None:
        state = secrets.randbits(64) if seed is None else seed & _MASK64
        self._state = state or _ZERO_SEED

    def next_u64(self) -> int:
        x = self._state
        x ^= x >> 12
        x ^= (x << 25) & _MASK64
        x ^= x >> 27
        self._state = x
        return (x * _MULTIPLIER) & _MASK64

    def uniform(self) -> float:
        return (self.next_u64() >> 40) / 16_777_216.0


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Tokens still in the running and their weights, in the order the draw walks them."""

    ids: Indices
    weights: Weights


def sample(logits: Logits, options: SamplingOptions, random: XorShift64Star, mask: Mask | None = None) -> int:
    """Draw one token from `logits` (vocab,); greedy options consume no random number.

    What `mask` forbids does not exist for any of the rules: the rest is drawn from as if it were all there is.
    """
    uniform = 0.0 if options.is_greedy else random.uniform()
    if mask is None:
        return pick(logits, options, uniform)
    allowed = _few_allowed(mask, logits.size)
    if allowed is None:
        bits = np.unpackbits(mask, count=logits.size, bitorder="little").view(np.bool_)
        if 4 * np.count_nonzero(bits) > 3 * logits.size:  # as inside a string: cheaper than to copy what may come
            return pick(_without(logits, np.flatnonzero(~bits)), options, uniform)
        allowed = np.flatnonzero(bits)
    if not allowed.size:
        raise BackendError(
            "the answer's form allows no token here, not even the end: the form contradicts itself, or the vocabulary "
            "cannot spell it. This request has ended, the engine goes on"
        )
    return int(allowed[pick(logits.take(allowed), options, uniform)])


def pick(logits: Logits, options: SamplingOptions, uniform: float) -> int:
    """The token that `uniform` in [0, 1) selects; BackendError when no logit is finite."""
    best = int(np.argmax(logits))  # numpy takes the first of equals, the lowest id, and NaN before any number
    if not np.isfinite(logits[best]):
        logits = _only_finite(logits)
        best = int(np.argmax(logits))
    if options.is_greedy:
        return best
    top_p = options.top_p if 0 < options.top_p <= 1 else 1.0
    min_p, temperature = max(options.min_p, 0.0), options.temperature
    if options.top_k > 0:
        ids = _best(logits, min(options.top_k, MAX_TOP_K))  # by logit: with a tiny temperature many weights are 0
        weights = _relative_weights(logits[ids], logits[best], temperature)
        return _walk(_nucleus(_normalised(ids, weights, _running_sum(weights)[-1]), top_p, min_p), uniform)
    if top_p < 1:
        weights = _relative_weights(logits, logits[best], temperature)
        return _walk(_nucleus(_likely(weights, top_p, min_p), top_p, min_p), uniform)
    return _walk(_in_vocabulary_order(logits, best, temperature, min_p), uniform)


def score(logits: Logits, token: int, num_best: int) -> tuple[float, tuple[TokenScore, ...]]:
    """The logprob of `token` at temperature 1, and the `num_best` best candidates, best first, lowest id first.

    By the model alone: a mask changes neither.
    """
    logits = _only_finite(logits)
    values = logits.astype(np.float64)
    top = values.max()
    log_total = float(top + np.log(np.exp(values - top).sum()))
    best = _best(logits, num_best) if num_best else np.empty(0, np.intp)
    scores = (TokenScore(int(i), float(values[i]), float(values[i]) - log_total) for i in best)
    return float(values[token]) - log_total, tuple(scores)


def _without(logits: Logits, forbidden: Indices) -> Logits:
    left = logits.copy()
    left[forbidden] = -np.inf
    return left


def _few_allowed(mask: Mask, vocab_size: int) -> Indices | None:
    """The ids that may be drawn, lowest first, where few words of the mask allow anything, as most forms have it: only
    those are taken apart. None: there are more."""
    if mask.size % 8 or mask.size < MANY_MASK_BYTES:
        return None
    words = np.flatnonzero(mask.view(np.uint64))
    if words.size > FEW_WORDS:
        return None
    bits = np.unpackbits(mask.reshape(-1, 8)[words], bitorder="little").view(np.bool_)
    allowed: Indices = (64 * words[:, None] + _BITS).ravel()[bits]
    return allowed[: np.searchsorted(allowed, vocab_size)]


def _only_finite(logits: Logits) -> Logits:
    """`logits` with every value that is not finite turned to -inf, which no rule below can choose."""
    finite = np.isfinite(logits)
    if finite.all():
        return logits
    if not finite.any():
        raise BackendError(
            f"expected at least one finite logit among {logits.size}, got none: the weights are damaged or the backend "
            "miscalculates; check the file with `whitedwarf gguf verify` or try another backend"
        )
    return np.where(finite, logits, np.float32(-np.inf))


def _relative_weights(logits: Logits, top: np.floating, temperature: float) -> Weights:
    """exp((logit - max) / T): 1 for the best token."""
    weights = logits.astype(np.float64)  # everything below in place: a vocabulary of them is a megabyte
    with np.errstate(over="ignore"):  # a tiny temperature: -inf, weight 0, as it should be
        weights -= np.float64(top)
        weights /= temperature
        return np.exp(weights, out=weights)


def _in_vocabulary_order(logits: Logits, best: int, temperature: float, min_p: float) -> _Candidates:
    ids = _near(logits, logits[best], temperature, min_p)
    weights = _relative_weights(logits[ids], logits[best], temperature)
    is_likely = weights >= min_p
    if is_likely.any():
        return _Candidates(ids[is_likely], weights[is_likely])
    return _Candidates(np.array([best]), np.ones(1))  # logits that differ may have one weight


def _near(logits: Logits, top: np.floating, temperature: float, min_p: float) -> Indices:
    """Tokens whose weight may reach `min_p`, and few others: most of a vocabulary needs no exponential."""
    if min_p == 0:
        return np.arange(logits.size)
    with np.errstate(over="ignore"):
        bar = np.float32(float(top) + temperature * (math.log(min_p) - 1e-6))
    return np.flatnonzero(logits >= np.nextafter(bar, np.float32(-np.inf)))


def _likely(weights: Weights, top_p: float, min_p: float) -> _Candidates:
    """The distribution sorted by probability, or so much of its head that the nucleus lies inside."""
    total = _running_sum(weights)[-1]
    ids = np.flatnonzero(weights >= min(min_p, 1.0) * 0.999)  # the margin: _nucleus compares after a division
    if ids.size > FIRST_LOOK:
        head = ids[_best(weights[ids], FIRST_LOOK)]
        if _running_sum(weights[head] / total)[-1] >= top_p:
            return _normalised(head, weights[head], total)
    ids = ids[np.argsort(-weights[ids], kind="stable")]
    return _normalised(ids, weights[ids], total)


def _normalised(ids: Indices, weights: Weights, total: float) -> _Candidates:
    return _Candidates(ids, weights / total)


def _nucleus(sorted_candidates: _Candidates, top_p: float, min_p: float) -> _Candidates:
    """Keep while p >= p_top * min_p (the first always), up to and including the one that reaches `top_p`."""
    probabilities = sorted_candidates.weights
    too_small = probabilities < probabilities[0] * min_p
    too_small[0] = False
    num_kept = int(np.argmax(too_small)) if too_small.any() else probabilities.size
    reached = int(np.searchsorted(_running_sum(probabilities[:num_kept]), top_p, side="left"))
    num_kept = min(num_kept, reached + 1)
    return _Candidates(sorted_candidates.ids[:num_kept], probabilities[:num_kept])


def _walk(candidates: _Candidates, uniform: float) -> int:
    """The first candidate whose running sum exceeds uniform * total."""
    running = _running_sum(candidates.weights)
    index = int(np.searchsorted(running, uniform * running[-1], side="right"))
    return int(candidates.ids[min(index, candidates.ids.size - 1)])


def _best(values: npt.NDArray[np.floating], count: int) -> Indices:
    """Indices of the `count` largest values, largest first, lowest index first among equals."""
    if count < values.size:
        bar = values[np.argpartition(values, -count)[-count]]
        ids = np.flatnonzero(values >= bar)
    else:
        ids = np.arange(values.size)
    return np.asarray(ids[np.argsort(-values[ids], kind="stable")][:count])


def _running_sum(weights: Weights) -> Weights:
    # cumsum adds one by one, in order, as the specification's loops do; sum() would add pairwise.
    return np.cumsum(weights)
