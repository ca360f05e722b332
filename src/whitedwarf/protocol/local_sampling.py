"""Options of sampling that clients of all dialects write alike, as the local policy reads them.

Promises: MalformedRequest names the member, what was expected and what came. Does not know the policy's bounds.
"""

from whitedwarf.protocol.fields import round_to_single
from whitedwarf.protocol.local_values import Object, expected, integer_at, number_at


def token_limit(body: Object, *names: str) -> int | None:
    """The smallest of all limits, where a client sends several names."""
    limits = [_limit(body, name) for name in names]
    return min((limit for limit in limits if limit is not None), default=None)


def top_k_of(body: Object) -> int | None:
    """0 and less: all tokens."""
    top_k = integer_at(body, "top_k")
    return None if top_k is None or top_k <= 0 else top_k


def min_p_of(body: Object) -> float | None:
    """A share of the best token's probability."""
    min_p = number_at(body, "min_p")
    if min_p is not None and not 0 <= min_p <= 1:
        raise expected("min_p", "a number from 0 to 1", min_p)
    return None if min_p is None else round_to_single(min_p)


def seed_of(body: Object) -> int | None:
    """A negative seed asks for any."""
    seed = integer_at(body, "seed")
    return None if seed is None or seed < 0 else seed


def _limit(body: Object, name: str) -> int | None:
    limit = integer_at(body, name)
    if limit is not None and limit < 0:
        raise expected(name, "a whole number, at least 1", limit)
    return limit
