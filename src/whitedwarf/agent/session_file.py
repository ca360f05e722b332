"""A session's file: a KVC file with a title, the exact tokens, and the model's state where there is one.

Promises: what was read is the file's, or FileFormatError says what is wrong with it. Knows no folder and no lock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from whitedwarf.agent.session_facts import Kept, SessionFacts, SteeringFacts, decode_facts, decode_kept, encode_kept
from whitedwarf.agent.transcript import Ids
from whitedwarf.engine.session import SessionSnapshot
from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore.file import TEXT_SIZE, KvFile
from whitedwarf.kvstore.header import HAS_FACTS, HAS_TITLE, Header, Reason
from whitedwarf.kvstore.payload import Payload, PayloadKind
from whitedwarf.kvstore.settings import StoreSettings
from whitedwarf.kvstore.store import FORMATS
from whitedwarf.kvstore.title import Trailers, encode_title, split_trailers
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.model.saved_states import StateArrays

Parts = Iterator[bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says without its state."""

    header: Header
    title: str
    facts: SessionFacts
    size_bytes: int

    @property
    def is_stripped(self) -> bool:
        """There is no state in it."""
        return self.header.payload_bytes == 0


class StateForm:
    """Turns the states of one model into payloads and back. Without a model there are no states."""

    def __init__(self, settings: StoreSettings, model: DeepSeek | None, weights: int) -> None:
        """`weights` is the mark of the model without steering."""
        self.weights = weights
        self.change_model(settings, model)

    def change_model(self, settings: StoreSettings, model: DeepSeek | None) -> None:
        """The same weights under another steering; nothing must be on its way to disk meanwhile."""
        self.settings = settings
        self.steering = None if model is None else model.steering
        self._arrays: dict[PayloadKind, StateArrays] = {}
        if model is not None:
            self._arrays = {
                PayloadKind.DS4: model.state_arrays("plain"),
                PayloadKind.PACKED: model.state_arrays("packed"),
            }

    @property
    def keeps_states(self) -> bool:
        """Whether there is a model."""
        return bool(self._arrays)

    @property
    def digest(self) -> str:
        """Of the steering that the model is under; empty without one."""
        return "" if self.steering is None else self.steering.digest

    def true(self, facts: SessionFacts) -> SessionFacts:
        """The same with what the model here is, whatever was said: the digest decides whose a state is."""
        steering = None
        if self.steering is not None:
            name = "" if facts.steering is None else facts.steering.file
            steering = SteeringFacts(name, self.steering.ffn, self.steering.attention, self.digest)
        return replace(facts, weights=self.weights, steering=steering)

    def payload(self, saved: SessionSnapshot | None) -> Payload | None:
        """What can be kept of a snapshot."""
        kind = self.settings.payload_kind
        if saved is None or saved.state is None or not len(saved.ids) or kind not in self._arrays:
            return None
        if not self._arrays[kind].accepts(saved.state):
            return None
        return Payload(saved.ids, saved.logits, self._arrays[kind].of(saved.state), kind)

    def snapshot(self, payload: Payload) -> SessionSnapshot:
        """FileFormatError where the arrays are not of this model."""
        if payload.kind not in self._arrays:
            raise FileFormatError("there is no model here that a state could be given to")
        try:
            state = self._arrays[payload.kind].restored(payload.ids, payload.layers)
        except ValueError as error:
            raise FileFormatError(f"its state is not of this model ({error})") from error
        return SessionSnapshot(payload.ids, state, payload.logits)

    def size_bytes(self, payload: Payload) -> int:
        """How long the payload will be."""
        return FORMATS[payload.kind].payload_bytes(payload, self.settings.layout)

    def write(self, payload: Payload) -> Iterator[memoryview]:
        """Its bytes."""
        return FORMATS[payload.kind].write_payload(payload, self.settings.layout)

    def read(self, file: KvFile) -> SessionSnapshot:
        """The state in a file; FileFormatError."""
        form = FORMATS[file.header.payload_kind]
        return self.snapshot(form.read_payload(file.payload(), self.settings.layout, file.path.name))


def parts_of(
    form: StateForm,
    text: bytes,
    title: str | None,
    kept: Kept,
    payload: Payload | None,
    created: int,
    now: int,
) -> Parts:
    """A whole file; without a title that of the system's prompt. `text` is what the payload's tokens spell, or all."""
    settings = form.settings
    header = Header(
        quant_bits=settings.quant_bits,
        reason=Reason.AGENT_SYSTEM if title is None else Reason.AGENT_SESSION,
        num_tokens=len(kept.ids) if payload is None else payload.num_tokens,
        context_length=settings.layout.context_length,
        payload_bytes=0 if payload is None else form.size_bytes(payload),
        created=created,
        last_used=now,
        flags=HAS_FACTS | (0 if title is None else HAS_TITLE),
        model_id=settings.model_id,
        payload_kind=settings.payload_kind,
        row_kind=settings.layout.row_kind,
        model_mark=settings.model_mark,
    )
    yield header.to_bytes() + TEXT_SIZE.pack(len(text))
    yield text
    if payload is not None:
        yield from form.write(payload)
    if title is not None:
        yield encode_title(title)
    yield encode_kept(kept)


def stripped_parts(file: KvFile, text: bytes, num_tokens: int) -> Parts:
    """The same file without its state: `text` is what all its tokens spell."""
    yield replace(file.header, payload_bytes=0, num_tokens=num_tokens).to_bytes() + TEXT_SIZE.pack(len(text))
    yield text
    yield file.trailers()


def read_head(file: KvFile) -> Head:
    """FileFormatError when it is no session's."""
    if file.header.reason is not Reason.AGENT_SESSION:
        raise FileFormatError(f"{file.path.name}: saved as {file.header.reason.name.lower()}, expected a session")
    trailers = _trailers(file)
    facts = SessionFacts() if trailers.facts is None else decode_facts(trailers.facts, file.path.name)
    return Head(file.header, trailers.title or "", facts, file.size_bytes)


def read_kept(file: KvFile) -> Kept | None:
    """The exact tokens; None in a file of ds4, which has none. FileFormatError when they are damaged."""
    facts = _trailers(file).facts
    return None if facts is None else decode_kept(facts, file.path.name)


def read_ids(file: KvFile) -> Ids:
    """The tokens of the payload, without the rest of it; FileFormatError. There has to be one."""
    form = FORMATS[file.header.payload_kind]
    return form.read_ids(file.payload_start(form.HEADER_BYTES + 4 * file.header.num_tokens), file.path.name)


def is_beginning(ids: Ids, of: Ids) -> bool:
    """Whether `of` begins with `ids`."""
    return len(ids) <= len(of) and bool(np.array_equal(ids, of[: len(ids)]))


def _trailers(file: KvFile) -> Trailers:
    trailers = split_trailers(file.trailers(), file.header.flags)
    if file.header.flags & HAS_FACTS and trailers.facts is None:
        raise FileFormatError(f"{file.path.name}: its title is damaged, and what follows it cannot be found")
    return trailers


def opened(path: Path) -> KvFile:
    """FileFormatError when it is damaged or gone."""
    try:
        return KvFile(path)
    except FileNotFoundError as error:
        raise FileFormatError(f"{path.name}: there is no such file any more") from error
