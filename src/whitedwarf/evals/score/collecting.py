"""Continuations from an endpoint into a folder: asked once each, kept as they come, gone on with after any stop.

    DIR/collection.json         what was asked: endpoint, model, options
    DIR/manifest.tsv            the cases that are there (case_files.py)
    DIR/prompts/ID.txt, continuations/ID.txt, responses/ID.json
    DIR/official.vec            the same as vectors, where there are logprobs (official_vectors.py)

A case is there when its continuation is, which is written last. Every file appears whole or not at all, and none has
the key.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from whitedwarf.errors import EndpointError, FileFormatError, UsageError, WhitedwarfError
from whitedwarf.evals.score.case_files import MANIFEST, Case, check_id, manifest_text
from whitedwarf.evals.score.endpoint import RefusedPromptError
from whitedwarf.evals.score.official_vectors import VectorCase, VectorStep, official_text
from whitedwarf.evals.score.prompts import Prompt
from whitedwarf.evals.score.reply import Reply, Step, read_reply
from whitedwarf.evals.text_file import read_text

ThinkingWish = Literal["disabled", "enabled", "omit"]
COLLECTION, VECTORS = "collection.json", "official.vec"
FORMAT = "whitedwarf-score-1"
VECTOR_CONTEXT = 16_384
_MOST_REFUSED = 3  # one after the other, before any was answered: it is not the prompts' fault

Ask = Callable[[dict[str, object]], bytes]
Write = Callable[[Path, bytes], None]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of whom; all of it shapes the continuations."""

    endpoint: str
    model: str
    max_tokens: int
    top_logprobs: int
    thinking: ThinkingWish

    def body(self, text: str) -> dict[str, object]:
        """The request for one prompt: greedy, no system text."""
        body: dict[str, object] = {
            "model": self.model,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "stream": False,
        }
        if self.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        if self.thinking != "omit":
            body["thinking"] = {"type": self.thinking}
        return body


@dataclass(frozen=True, slots=True)
class Collected:
    """What became of the prompts."""

    asked: int
    present: int
    without: tuple[str, ...]  # ids that no continuation came for

    @property
    def cases(self) -> int:
        return self.asked + self.present


class Collection:
    """The folder."""

    def __init__(self, folder: Path, write: Write) -> None:
        self.folder = folder
        self._write = write

    def begin(self, wish: Wish, prompts: Sequence[Prompt]) -> None:
        """Make it, or see that it holds answers to the same questions; UsageError that says what differs."""
        file = self.folder / COLLECTION
        if file.exists():
            changed = _changes(_wish_in(file), asdict(wish))
            if changed:
                raise UsageError(f"{self.folder} was collected otherwise: {changed}; give the same, or another folder")
        for prompt in prompts:
            path = self.case(prompt).prompt
            if path.exists() and read_text(path) != prompt.text:
                raise UsageError(f"{path} is another prompt than {prompt.id} now; give other ids, or another folder")
        try:
            for part in ("prompts", "continuations", "responses"):
                (self.folder / part).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make {self.folder}: {error.strerror}") from error
        self._write(file, (json.dumps({"format": FORMAT} | asdict(wish), indent=2) + "\n").encode())

    def case(self, prompt: Prompt) -> Case:
        parts = ("prompts", "txt"), ("continuations", "txt"), ("responses", "json")
        return Case(prompt.id, *(self.folder / part / f"{prompt.id}.{end}" for part, end in parts))

    def has(self, prompt: Prompt) -> bool:
        """Whether the case is there: all of its files."""
        case = self.case(prompt)
        return all(path.is_file() for path in (case.continuation, case.response, case.prompt))

    def keep(self, prompt: Prompt, body: bytes, reply: Reply) -> None:
        """The case, its continuation last."""
        case = self.case(prompt)
        self._write(case.prompt, prompt.text.encode())
        self._write(case.response, body)
        self._write(case.continuation, reply.text.encode())

    def list(self, prompts: Iterable[Prompt], wish: Wish) -> None:
        """The manifest, and the vectors of all cases that have candidates; cases of earlier runs stay in both.

        Vectors are answers without thoughts: none are written where these were asked for, nor of an answer whose
        candidates leave tokens out, since what follows a gap cannot be told from what is listed.
        """
        cases = {case.id: case for case in self._listed()}
        cases |= {prompt.id: self.case(prompt) for prompt in prompts if self.has(prompt)}
        self._write(self.folder / MANIFEST, manifest_text(list(cases.values()), self.folder).encode())
        vectors = [vector for case in cases.values() if (vector := self._vector(case)) is not None]
        if vectors and wish.thinking != "enabled":
            about = "Greedy continuations with their likeliest tokens, by `whitedwarf score collect`."
            self._write(self.folder / VECTORS, official_text(vectors, about).encode())

    def _listed(self) -> Iterable[Case]:
        """What an earlier run has listed, and is still there."""
        manifest = self.folder / MANIFEST
        rows = read_text(manifest).splitlines()[1:] if manifest.exists() else []
        ids = (check_id(row.split("\t")[0], str(manifest)) for row in rows if row)
        cases = (self.case(Prompt(case_id, "")) for case_id in ids)
        return [case for case in cases if case.continuation.is_file() and case.prompt.is_file()]

    def _vector(self, case: Case) -> VectorCase | None:
        try:
            reply = read_reply(case.response.read_bytes())
        except (OSError, EndpointError) as error:
            raise FileFormatError(
                f"{case.response} is damaged ({error}); delete it, and it is asked for again"
            ) from error
        steps = _with_bytes(reply.steps)
        if reply.has_gap or not any(step.top for step in steps):
            return None
        name = case.prompt.relative_to(self.folder).as_posix()
        return VectorCase(case.id, VECTOR_CONTEXT, name, tuple(_vector_step(step) for step in steps))


def collect(
    prompts: Sequence[Prompt], wish: Wish, collection: Collection, ask: Ask, say: Say, step: Callable[[int], None]
) -> Collected:
    """Ask for what is not there yet. Prompts that are refused or not answered are told and left out.

    `step` hears how many are done. EndpointError when nothing more can be had; what was, is kept and listed.
    """
    collection.begin(wish, prompts)
    present = sum(collection.has(prompt) for prompt in prompts)
    asked, without = 0, []
    try:
        for done, prompt in enumerate(prompts):
            step(done)
            if collection.has(prompt):
                continue
            try:
                body = ask(wish.body(prompt.text))
                reply = _answered(read_reply(body), wish)
            except (RefusedPromptError, NoTextError) as error:
                say(f"{prompt.id}: {error}")
                without.append(prompt.id)
                if len(without) >= _MOST_REFUSED and not asked and not present:
                    raise EndpointError(f"the first {len(without)} prompts were not answered: {error}") from error
                continue
            if reply.has_gap:
                counts = f"{reply.drawn_tokens} tokens were drawn, {len(reply.steps)} are listed"
                say(f"{prompt.id}: {counts}: no vectors of it")
            collection.keep(prompt, body, reply)
            asked += 1
    finally:
        collection.list(prompts, wish)
    return Collected(asked, present, tuple(without))


class NoTextError(EndpointError):
    """An answer without any text."""


def _answered(reply: Reply, wish: Wish) -> Reply:
    """EndpointError where what was asked for is missing."""
    if not reply.text:
        why = f" (it ended by {reply.finish_reason})" if reply.finish_reason else ""
        hint = "; thoughts may have used up --max-tokens" if wish.thinking != "disabled" else ""
        raise NoTextError(f"the answer has no text{why}{hint}")
    if wish.top_logprobs and not any(step.top for step in reply.steps):
        raise EndpointError(
            f"the endpoint sent no log-probabilities for {wish.model}; give --top-logprobs 0 to collect texts alone"
        )
    return reply


def _with_bytes(steps: Sequence[Step]) -> Sequence[Step]:
    """Without the last one where that is the end of the answer, which some servers list as no bytes; none at all where
    another has no bytes, since it cannot be told what followed what."""
    last = len(steps) - (bool(steps) and not steps[-1].chosen.data)
    return steps[:last] if all(step.chosen.data for step in steps[:last]) else ()


def _vector_step(step: Step) -> VectorStep:
    """Candidates without bytes, as some servers have control tokens, are left out."""
    each = {
        candidate.data: candidate for candidate in reversed(step.top) if candidate.data
    }  # the likeliest, where bytes come twice
    return VectorStep(step.chosen.data, tuple(reversed(each.values())))


def _wish_in(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{file} is damaged ({error}); collect into another folder") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise WhitedwarfError(f"{file}: expected the format {FORMAT}; collect into another folder")
    return value


def _changes(old: dict[str, Any], new: dict[str, Any]) -> str:
    """What differs, in words; "" where nothing does."""
    return ", ".join(f"{name} was {old.get(name)}, is {value}" for name, value in new.items() if old.get(name) != value)
