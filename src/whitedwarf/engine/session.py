"""A session: one live sequence that requests continue, one after another.

It promises that its state is exactly its `ids` run from zero: after a cancel they are a valid prefix of the request,
after a failure there are none and the next request rebuilds. It does not know other sessions or its own past.

Seam: `sync` alone decides how much of a prompt is reused. A tree of checkpoints or a store on disk goes where it now
falls back to a new state.
"""

from array import array

import numpy as np

from whitedwarf.model.base import Ids, Model, State


class Session:
    """Made by `Engine.new_session`. Others may look; only the engine's thread changes it."""

    def __init__(self, model: Model, lane: int) -> None:
        self.lane = lane  # the scheduler runs one request per lane at a time
        self._model = model
        self._state: State | None = None
        self._ids = array("i")

    @property
    def ids(self) -> list[int]:
        """The tokens the state has consumed; seen from another thread, those of the last batch that ended."""
        return self._ids.tolist()

    @property
    def position(self) -> int:
        return len(self._ids)

    @property
    def state(self) -> State:
        assert self._state is not None, "sync comes first"
        return self._state

    def belongs_to(self, model: Model) -> bool:
        return self._model is model

    def sync(self, prompt: Ids) -> int:
        """Make the live tokens a proper prefix of `prompt`, as long as can be had cheaply -> its length.

        Proper, because the last token's logits are wanted. What is live beyond the common prefix is rolled back when
        the state has room for that; otherwise everything is rebuilt from zero.
        """
        keep = min(self._common_length(prompt), len(prompt) - 1)
        surplus = self.position - keep
        if self._state is None or keep == 0 or surplus > self._state.rollback_room:
            self.drop()
            self._state = self._model.new_state()
            return 0
        if surplus:
            self._state.rollback(surplus)
            del self._ids[keep:]
        return keep

    def advance(self, ids: Ids) -> None:
        """The model has run `ids` on the state."""
        self._ids.extend(ids.tolist())
        assert self.state.position == self.position, "the model advances a state by exactly the tokens it was given"

    def drop(self) -> None:
        """Forget everything: the state can no longer be trusted, or nobody wants it."""
        self._state = None
        self._ids = array("i")

    def _common_length(self, prompt: Ids) -> int:
        shorter = min(self.position, len(prompt))
        different = np.flatnonzero(np.array(self._ids[:shorter], np.int32) != prompt[:shorter])
        return int(different[0]) if different.size else shorter
