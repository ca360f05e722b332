"""What token ids spell."""

import numpy as np
import numpy.typing as npt

from whitedwarf.prompt.tokenizer import Tokenizer


class TokenWords(dict[int, bytes]):
    """What tokens stand for, each looked up once: prompts have a hundred thousand."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def __missing__(self, token_id: int) -> bytes:
        """ValueError outside the vocabulary."""
        word = self[token_id] = self._tokenizer.token_bytes(token_id)
        return word

    def text(self, ids: npt.NDArray[np.int32]) -> bytes:
        """All of them; ValueError as above."""
        return b"".join(map(self.__getitem__, ids.tolist()))
