"""Logits as a request wants them changed before a token is drawn: some tokens favoured, and those that came before not.

Penalties as the OpenAI API defines them: over the tokens of the answer so far, `frequency_penalty` times how often a
token came, and `presence_penalty` once where it came at all. Log probabilities that are told are the model's own.
"""

import numpy as np
import numpy.typing as npt

from whitedwarf.engine.request import SamplingOptions
from whitedwarf.model.base import Logits

_FIRST_ROOM = 64


class LogitChanges:
    """Of one answer."""

    def __init__(self, options: SamplingOptions) -> None:
        self._options = options
        self._biased = np.array([token for token, _ in options.logit_bias], np.intp)
        self._bias = np.array([bias for _, bias in options.logit_bias], np.float32)
        self._has_penalties = bool(options.presence_penalty or options.frequency_penalty)
        self._places: dict[int, int] = {}  # of the tokens that came, in the two arrays below
        self._came: npt.NDArray[np.intp] = np.empty(_FIRST_ROOM, np.intp)
        self._penalties: npt.NDArray[np.float32] = np.empty(_FIRST_ROOM, np.float32)

    @property
    def is_none(self) -> bool:
        return not (self._has_penalties or len(self._biased))

    def saw(self, token: int) -> None:
        """This token came in the answer."""
        if not self._has_penalties:
            return
        place = self._places.get(token)
        if place is not None:
            self._penalties[place] += self._options.frequency_penalty
            return
        place = self._places[token] = len(self._places)
        if place == len(self._came):
            self._came = np.resize(self._came, 2 * place)
            self._penalties = np.resize(self._penalties, 2 * place)
        self._came[place] = token
        self._penalties[place] = self._options.presence_penalty + self._options.frequency_penalty

    def of(self, logits: Logits) -> Logits:
        """A changed copy of `logits` (vocab,); themselves where nothing changes."""
        if self.is_none:
            return logits
        changed = logits.copy()
        changed[self._biased] += self._bias
        came = self._came[: len(self._places)]
        changed[came] -= self._penalties[: len(came)]
        return changed
