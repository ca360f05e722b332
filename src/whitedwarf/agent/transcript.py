"""The session's tokens: the single truth of what the model has been told and has said.

Every sampled token is in it as it was sampled, so what follows is never read twice. Knows no model and no text.
"""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]


class Transcript:
    """Token ids that only grow, or are cut back to an earlier length."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._ids = array("i", ids)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> Ids:
        """All of them (a copy)."""
        return np.array(self._ids, np.int32)

    def extend(self, ids: Sequence[int]) -> None:
        """What was said."""
        self._ids.extend(ids)

    def cut(self, length: int) -> None:
        """Forget what came after the first `length`; ValueError beyond its end."""
        if not 0 <= length <= len(self._ids):
            raise ValueError(f"expected a length from 0 to {len(self._ids)}, got {length}")
        del self._ids[length:]

    def places(self, token: int) -> list[int]:
        """Where a token stands, such as the one that begins a user's turn; ascending."""
        found: list[int] = np.flatnonzero(self.ids == token).tolist()
        return found
