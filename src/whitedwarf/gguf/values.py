"""Bounded numbers out of untrusted mappings: GGUF metadata or a config.json.

Promises that what it returns is of the asked Python type, finite and within the asked bounds; everything else is a
`NotDeepSeekV4Error` naming the key, what was found and what was expected. It does not know what the numbers mean.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from whitedwarf.errors import NotDeepSeekV4Error

MISSING = object()


def refuse(key: str, found: object, expected: str) -> NotDeepSeekV4Error:
    """The one shape of message for a value that this engine does not take."""
    shown = "nothing" if found is MISSING else f"{found!r:.80}"
    return NotDeepSeekV4Error(f"{key}: found {shown}, expected {expected}; this is not a DeepSeek V4 model we can run")


def whole_number(values: Mapping[str, object], key: str, low: int, high: int) -> int:
    """An integer in [low, high]; a bool is not a number here."""
    found = values.get(key, MISSING)
    if isinstance(found, (int, np.integer)) and not isinstance(found, bool) and low <= int(found) <= high:
        return int(found)
    raise refuse(key, found, f"a whole number from {low} to {high}")


def word(values: Mapping[str, object], key: str, choices: Sequence[str]) -> str:
    """One of `choices`; an array is not a word, and must not be compared like one."""
    found = values.get(key, MISSING)
    if isinstance(found, str) and found in choices:
        return found
    raise refuse(key, found, " or ".join(map(repr, choices)))


def real_number(values: Mapping[str, object], key: str, low: float, high: float) -> float:
    """A finite number in [low, high]; files spell floats as f32, f64 or as integers."""
    return _real(key, values.get(key, MISSING), low, high)


def truth(values: Mapping[str, object], key: str) -> bool:
    """A bool, or the integers 0 and 1."""
    found = values.get(key, MISSING)
    if isinstance(found, (bool, np.bool_)) or (isinstance(found, (int, np.integer)) and found in (0, 1)):
        return bool(found)
    raise refuse(key, found, "true or false")


def real_per_layer(
    values: Mapping[str, object], key: str, num_layers: int, low: float, high: float
) -> tuple[float, ...]:
    """One number per layer, from a scalar or an array with an entry for every layer (further entries are dropped)."""
    found = values.get(key, MISSING)
    entries = _array(found)
    if entries is None:
        return (_real(key, found, low, high),) * num_layers
    if len(entries) < num_layers:
        raise refuse(key, found, f"a number, or an array of at least {num_layers} numbers (one per layer)")
    return tuple(_real(f"{key}[{layer}]", entry, low, high) for layer, entry in enumerate(entries[:num_layers]))


def choice_per_layer(
    values: Mapping[str, object], key: str, num_layers: int, choices: Sequence[int]
) -> tuple[int, ...]:
    """One of `choices` per layer from an array with an entry for every layer (further entries are dropped)."""
    found = values.get(key, MISSING)
    entries = _array(found)
    if entries is None or len(entries) < num_layers:
        raise refuse(key, found, f"an array of at least {num_layers} entries (one per layer)")
    return tuple(_choice(f"{key}[{layer}]", entry, choices) for layer, entry in enumerate(entries[:num_layers]))


def uniform(values: Mapping[str, object], key: str) -> object:
    """A scalar, or the one value that all entries of an array share; MISSING when the key is not there."""
    found = values.get(key, MISSING)
    entries = _array(found)
    if entries is None:
        return found
    if not entries or any(entry != entries[0] for entry in entries):
        raise refuse(key, found, "one value, or an array of equal values")
    return entries[0]


def _real(key: str, found: object, low: float, high: float) -> float:
    is_number = isinstance(found, (int, float, np.integer, np.floating)) and not isinstance(found, bool)
    if is_number and low <= found <= high:  # type: ignore[operator]  # false for NaN, and safe for any integer
        return float(found)  # type: ignore[arg-type]
    raise refuse(key, found, f"a finite number from {low:g} to {high:g}")


def _choice(key: str, found: object, choices: Sequence[int]) -> int:
    if isinstance(found, int) and not isinstance(found, bool) and found in choices:
        return found
    raise refuse(key, found, f"one of {', '.join(map(str, choices))}")


def _array(found: object) -> list[object] | None:
    if isinstance(found, np.ndarray):
        return found.tolist() if found.ndim == 1 else None
    if not isinstance(found, (list, tuple)):
        return None
    return [entry.tolist() if isinstance(entry, np.ndarray) else entry for entry in found]
