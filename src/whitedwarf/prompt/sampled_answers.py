"""Answers in the very tokens that were drawn: a model may split its words otherwise than the tokenizer would.

A client sends an answer back as text. Tokenised anew it can come to other ids than those that the model's state holds,
and nothing after them would be found again. So what was drawn is remembered under the canonical ids of everything up to
its end, and put back in their place.

Promises: a prompt that `adopt` gives reads the same as the one it was given, token types included; what was drawn is
used only behind exactly the prompt that it answered; bounded. May be shared between threads.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Ids, Tokenizer

MAX_ANSWERS = 20_000
MAX_BYTES = 64 << 20
_ENTRY_BYTES = 200
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Stands in place of the last `num_canonical` ids; None: the canonical ids are what was drawn."""

    num_canonical: int
    ids: Ids | None

    @classmethod
    def of(cls, canonical: Ids, drawn: Ids) -> "_Drawn":
        """Both read the same. A copy, for a part of a prompt would keep the whole of it alive."""
        return cls(len(canonical), None if np.array_equal(canonical, drawn) else drawn.copy())

    @property
    def size_bytes(self) -> int:
        return _ENTRY_BYTES + (0 if self.ids is None else self.ids.nbytes)


class SampledAnswers:
    """Whoever has a prompt's canonical ids asks `adopt` for those to run."""

    def __init__(self, tokenizer: Tokenizer, max_answers: int = MAX_ANSWERS, max_bytes: int = MAX_BYTES) -> None:
        self._tokenizer = tokenizer
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        self._special = np.array(sorted(tokenizer.vocabulary.special_ids.values()), np.int32)
        self._eos = tokenizer.special_id(SpecialToken.EOS)
        self._looking = threading.Lock()  # held until what is new has been looked at: others wait for it
        self._lock = threading.Lock()  # guards everything below
        self._new: list[tuple[Ids, Ids]] = []  # prompts and answers not yet looked at
        self._drawn: OrderedDict[bytes, _Drawn] = OrderedDict()  # by the digest of the ids that end with them
        self._size_bytes = 0

    def remember(self, prompt: Ids, answer: Sequence[int]) -> None:
        """`answer` was drawn after a prompt whose canonical ids these are; its text is looked at later, by `adopt`."""
        if len(answer):
            with self._lock:
                self._new.append((prompt, np.array(answer, np.int32)))

    def learn(self, canonical: Ids, run: Ids) -> None:
        """Both read the same, and a state holds (the beginning of) `run`: so its answers were drawn.

        What is known of an answer stays: how it was drawn here, while `run` may have been cut before it.
        """
        ends, others = (np.flatnonzero(ids == self._eos).tolist() for ids in (canonical, run))
        digest, begin, other_begin = _new_digest(), 0, 0
        for end, other_end in zip(ends, others, strict=True):
            stretch, drawn = canonical[begin:end], run[other_begin:other_end]
            digest.update(_bytes(stretch))
            self._keep(digest.digest(), _Drawn.of(stretch, drawn), replaces=False)
            begin, other_begin = end, other_end

    def adopt(self, canonical: Ids) -> Ids:
        """The same prompt with every remembered answer in the ids that were drawn."""
        self._look_at_new()
        if not self._drawn:
            return canonical
        parts: list[Ids] = []
        begin = 0
        for end, drawn in self._found(canonical):
            if drawn.ids is None:
                continue
            start = end - drawn.num_canonical
            parts += [canonical[begin:start], drawn.ids]
            begin = end
        return np.concatenate([*parts, canonical[begin:]]) if parts else canonical

    def knows(self, canonical: Ids) -> bool:
        """Whether the last answer in this prompt was drawn here, or none is in it."""
        self._look_at_new()
        ends = np.flatnonzero(canonical == self._eos)
        if not len(ends):
            return True
        with self._lock:
            return _digest(canonical[: ends[-1]]) in self._drawn

    def _found(self, canonical: Ids) -> Iterator[tuple[int, _Drawn]]:
        """Remembered answers and where they end, in order."""
        digest, begin = _new_digest(), 0
        for end in np.flatnonzero(canonical == self._eos).tolist():
            digest.update(_bytes(canonical[begin:end]))
            begin = end
            drawn = self._used(digest.digest())
            if drawn is not None:
                yield end, drawn

    def _used(self, key: bytes) -> _Drawn | None:
        with self._lock:
            drawn = self._drawn.get(key)
            if drawn is not None:
                self._drawn.move_to_end(key)
            return drawn

    def _look_at_new(self) -> None:
        with self._looking:
            with self._lock:
                new, self._new = self._new, []
            for prompt, answer in new:
                self._look_at(prompt, answer)

    def _look_at(self, prompt: Ids, answer: Ids) -> None:
        # From the last control token on, for text before and after the seam is tokenised as one.
        seam = _end_of_last(np.isin(prompt, self._special))
        drawn = np.concatenate([prompt[seam:], answer])
        canonical = self._canonical(drawn)
        if canonical is not None:
            self._keep(_digest(prompt[:seam], canonical), _Drawn.of(canonical, drawn))

    def _canonical(self, drawn: Ids) -> Ids | None:
        """What the tokenizer makes of the same text and control tokens; None where it is no text."""
        ids: list[int] = []
        for is_control, stretch in _stretches(drawn.tolist(), set(self._special.tolist())):
            if is_control:
                ids += stretch
                continue
            try:
                text = b"".join(map(self._tokenizer.token_bytes, stretch)).decode()
            except ValueError:  # UnicodeDecodeError too: a client saw U+FFFD and cannot say it back
                return None
            ids += self._tokenizer.encode(text)
        return np.array(ids, np.int32)

    def _keep(self, key: bytes, drawn: _Drawn, *, replaces: bool = True) -> None:
        with self._lock:
            if key in self._drawn and not replaces:
                return
            if (old := self._drawn.pop(key, None)) is not None:
                self._size_bytes -= old.size_bytes
            self._drawn[key] = drawn
            self._size_bytes += drawn.size_bytes
            while len(self._drawn) > self._max_answers or self._size_bytes > self._max_bytes:
                self._size_bytes -= self._drawn.popitem(last=False)[1].size_bytes


def _new_digest() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)


def _digest(*parts: Ids) -> bytes:
    digest = _new_digest()
    for part in parts:
        digest.update(_bytes(part))
    return digest.digest()


def _bytes(ids: Ids) -> bytes:
    return np.ascontiguousarray(ids, np.int32).tobytes()


def _end_of_last(is_wanted: np.ndarray) -> int:
    places = np.flatnonzero(is_wanted)
    return int(places[-1]) + 1 if len(places) else 0


def _stretches(ids: Iterable[int], special: set[int]) -> Iterator[tuple[bool, list[int]]]:
    """Control tokens one by one, and what stands between them."""
    text: list[int] = []
    for token in ids:
        if token not in special:
            text.append(token)
            continue
        if text:
            yield False, text
            text = []
        yield True, [token]
    if text:
        yield False, text
