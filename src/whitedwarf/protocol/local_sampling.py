"""Options of sampling that clients of all dialects write alike, as the local policy reads them.

Promises: MalformedRequest names the member, what was expected and what came. Does not know the policy's bounds.
"""

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.fields import round_to_single
from whitedwarf.protocol.local_values import Object, expected, integer_at, number_at

MOST_BIASES = 1024
MOST_CHOICES = 8
_LONGEST_ID = 9  # digits


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


def num_choices_of(body: Object) -> int | None:
    """How many answers to the same prompt; a count is written as one: 2.0 is refused."""
    value = body.get("n")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_CHOICES:
        raise expected("n", f"a whole number of answers from 1 to {MOST_CHOICES}", value)
    return value


def logit_bias_of(body: Object) -> tuple[tuple[int, float], ...]:
    """Token ids, each once, and what is added to their logits: an object, or the pairs of llama.cpp."""
    value = body.get("logit_bias")
    if value is None:
        return ()
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list) or len(pairs) > MOST_BIASES:
        what = f"an object of at most {MOST_BIASES} token ids with numbers from -100 to 100"
        raise expected("logit_bias", what, value if not isinstance(pairs, list) else len(pairs))
    found: dict[int, float] = {}
    for pair in pairs:
        token, bias = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (pair, None)
        found[_token_id(token)] = _bias(token, bias)
    return tuple(found.items())


def _token_id(value: Json) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _LONGEST_ID:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise expected("logit_bias", "token ids (numbers in decimal digits) as names", value)


def _bias(token: Json, value: Json) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -100 <= value <= 100:  # type: ignore[operator]
        raise expected(f"logit_bias.{token}", "a number from -100 to 100", value)
    return round_to_single(float(value))  # type: ignore[arg-type]


def _limit(body: Object, name: str) -> int | None:
    limit = integer_at(body, name)
    if limit is not None and limit < 0:
        raise expected(name, "a whole number, at least 1", limit)
    return limit
