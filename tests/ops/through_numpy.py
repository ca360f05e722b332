"""A backend whose arrays are a device's, as if they were numpy's: what goes in is taken in, what comes out fetched."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ThroughNumpy:
    """Every operation of `ops` on numpy arrays, also those in its dataclasses; weights stay as they are."""

    ops: Any

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self.ops, name)

        def call(*args: Any, **named: Any) -> Any:
            taken = {key: self._taken_in(value) for key, value in named.items()}
            return self._fetched(operation(*map(self._taken_in, args), **taken))

        return call

    def weight(self, tensor: Any) -> Any:
        return self.ops.weight(tensor)

    def _taken_in(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self.ops.arrays(value)[0]
        if is_dataclass(value) and not isinstance(value, type) and type(value).__module__.endswith("ops.base"):
            return replace(value, **{f.name: self._taken_in(getattr(value, f.name)) for f in fields(value)})
        return value

    def _fetched(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(self._fetched, value))
        if is_dataclass(value) and type(value).__module__.endswith("ops.base"):
            return replace(value, **{f.name: self._fetched(getattr(value, f.name)) for f in fields(value)})
        return self.ops.host(value) if hasattr(value, "shape") and hasattr(value, "dtype") else value
