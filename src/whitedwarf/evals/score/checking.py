"""A model held to known candidates: official ones by their bytes, golden ones by their ids (spec/product.md E.6)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import FileFormatError, WhitedwarfError
from whitedwarf.evals.score.golden_vectors import GoldenCase, Mode, Top
from whitedwarf.evals.score.likelihood import log_softmax
from whitedwarf.evals.score.measuring import chat_ids
from whitedwarf.evals.score.official_vectors import UNKNOWN_LOGPROB, VectorCase, VectorStep
from whitedwarf.model.base import Logits, Model, Span, State
from whitedwarf.prompt.tokenizer import Tokenizer

MAX_DELTA = 4.0  # of log-probabilities
OVERLAPS = {5: 4, 20: 15, 64: 40}  # of so many likeliest tokens so many must be ours, too
MAX_LOGIT_DELTA, COMPARED = 8.0, 20  # over the likeliest 20
SHOWN = 4  # faults of a case


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case: what is wrong (nothing: it holds), how much was checked, and the largest difference."""

    id: str
    faults: tuple[str, ...]
    checked: str
    max_delta: float

    @property
    def holds(self) -> bool:
        return not self.faults

    def as_json(self) -> dict[str, object]:
        return {"id": self.id, "holds": self.holds, "max_delta": self.max_delta, "faults": list(self.faults)}

    def lines(self) -> Iterator[str]:
        """For people: OK or ERR, and the first faults."""
        yield f"{'OK ' if self.holds else 'ERR'} {self.id}: {self.checked}, largest difference {self.max_delta:.4f}"
        yield from (f"      {fault}" for fault in self.faults[:SHOWN])
        if len(self.faults) > SHOWN:
            yield f"      and {len(self.faults) - SHOWN} more"


class ByteTokens:
    """Which tokens stand for given bytes; almost always one."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @cached_property
    def _ids(self) -> Mapping[bytes, list[int]]:
        found: dict[bytes, list[int]] = {}
        for token_id in range(self._tokenizer.vocab_size):
            found.setdefault(self._tokenizer.token_bytes(token_id), []).append(token_id)
        return found

    def likeliest(self, data: bytes, row: npt.NDArray[np.floating]) -> int | None:
        """Of those tokens the one with the largest value; None where there is none."""
        ids = self._ids.get(data)
        return None if ids is None else max(ids, key=lambda token_id: float(row[token_id]))


def check_official(
    model: Model, tokens: ByteTokens, case: VectorCase, prompt: Sequence[int], chunk_tokens: int, max_delta: float
) -> Verdict:
    """Each step's choice must be the likeliest here, and every candidate as likely as it was, within `max_delta`.

    Steps after one that differs are judged as if it had been the official one.
    """
    state = model.new_state()
    logits, faults, largest, compared = _read(model, prompt, chunk_tokens, state), [], 0.0, 0
    for number, step in enumerate(case.steps):
        row = _finite(logits, case.id)
        found, delta = _step_faults(row, step, tokens, max_delta)
        faults += [f"step {number}: {fault}" for fault in found]
        largest, compared = max(largest, delta), compared + len(step.top)
        forced = tokens.likeliest(step.chosen, row)
        if forced is None:
            faults.append(f"step {number}: no token is {_shown(step.chosen)}: later steps cannot be checked")
            break
        if number + 1 < len(case.steps):
            logits = model.forward([Span(state, np.array([forced], np.int32), "last")])[0]
    return Verdict(case.id, tuple(faults), f"{len(case.steps)} steps, {compared} candidates", largest)


def golden_case(model: Model, case: GoldenCase, ids: Sequence[int], chunk_tokens: int, num_top: int) -> GoldenCase:
    """The same case with this model's likeliest tokens; the lowest id first where logits are equal."""
    row = _finite(_read(model, ids[: case.frontier], chunk_tokens, model.new_state()), case.id)
    return replace(case, top=tops_of(row, num_top))


def tops_of(row: npt.NDArray[np.float32], num_top: int) -> tuple[Top, ...]:
    """The likeliest tokens of a row of logits, the lowest id first where they are equal."""
    best = np.argsort(-row, kind="stable")[:num_top]
    return tuple(Top(int(token_id), float(row[token_id])) for token_id in best)


def check_golden(model: Model, case: GoldenCase, ids: Sequence[int], chunk_tokens: int) -> Verdict:
    """The same likeliest token, most of the likeliest 5, 20 and 64, and logits of the likeliest 20 that are near."""
    unknown = [top.id for top in case.top if top.id >= model.config.vocab_size]
    if unknown:
        raise FileFormatError(
            f"{case.id} has token {unknown[0]}, this model has {model.config.vocab_size}: expected the model it is of"
        )
    row = _finite(_read(model, ids[: case.frontier], chunk_tokens, model.new_state()), case.id)
    faults = []
    ours = [top.id for top in tops_of(row, max(OVERLAPS))]
    wanted = [top.id for top in case.top]
    if ours[0] != wanted[0]:
        faults.append(f"the likeliest token is {ours[0]}, expected {wanted[0]}")
    for count, least in OVERLAPS.items():
        both = len(set(ours[:count]) & set(wanted[:count]))
        if len(wanted) >= count and both < least:
            faults.append(f"of the likeliest {count} tokens {both} are the same, expected at least {least}")
    delta = max(abs(float(row[top.id]) - top.logit) for top in case.top[:COMPARED])
    if delta > MAX_LOGIT_DELTA:
        faults.append(f"a logit differs by {delta:.3f}, expected at most {MAX_LOGIT_DELTA:g}")
    return Verdict(case.id, tuple(faults), f"{case.frontier} tokens, likeliest {len(wanted)}", delta)


def golden_ids(tokenizer: Tokenizer, mode: Mode, text: str) -> list[int]:
    """A prompt's ids by its mode."""
    match mode:
        case "text":
            return tokenizer.encode(text)
        case "rendered":
            return tokenizer.encode_rendered(text)
        case "chat":
            return chat_ids(tokenizer, text)


def _read(model: Model, ids: Sequence[int], chunk_tokens: int, state: State) -> Logits:
    """The logits after the last of `ids` (1, vocab)."""
    for start in range(0, len(ids), chunk_tokens):
        piece = np.array(ids[start : start + chunk_tokens], np.int32)
        (logits,) = model.forward([Span(state, piece, "last" if start + len(piece) == len(ids) else "none")])
    return logits


def _finite(logits: Logits, case_id: str) -> npt.NDArray[np.float32]:
    row: npt.NDArray[np.float32] = logits[-1]
    if not np.isfinite(row).all():
        raise WhitedwarfError(
            f"{case_id}: the model's logits are no numbers; `whitedwarf gguf verify` tells whether its file is sound"
        )
    return row


def _step_faults(
    row: npt.NDArray[np.float32], step: VectorStep, tokens: ByteTokens, max_delta: float
) -> tuple[list[str], float]:
    """What differs, and the largest difference of a log-probability."""
    logprobs, faults, largest = log_softmax(row), [], 0.0
    chosen = tokens.likeliest(step.chosen, row)
    best = int(row.argmax())
    if chosen is not None and row[chosen] < row[best]:
        gap = float(logprobs[best] - logprobs[chosen])
        faults.append(f"expected {_shown(step.chosen)}, here token {best} is likelier by {gap:.3f}")
    for candidate in step.top:
        token_id = tokens.likeliest(candidate.data, row)
        if token_id is None:
            faults.append(f"no token is {_shown(candidate.data)}")
            continue
        if candidate.logprob <= UNKNOWN_LOGPROB:
            continue
        delta = abs(float(logprobs[token_id]) - candidate.logprob)
        largest = max(largest, delta)
        if delta > max_delta:
            faults.append(
                f"{_shown(candidate.data)} has log-probability {logprobs[token_id]:.3f}, officially "
                f"{candidate.logprob:.3f}: more than {max_delta:g} apart"
            )
    return faults, largest


def _shown(data: bytes) -> str:
    return f"{data.hex()} ({data.decode('utf-8', 'replace')!r})"
