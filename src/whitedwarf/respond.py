"""The road of one request: bytes in, the dialect's own pieces of an answer out. Everything else is called from here.

    read_json -> convert -> the past -> encode -> room for the answer -> engine -> parser -> the dialect's stream

Promises: what cannot be answered is refused before any work, with an error that the dialect can tell. Does not know
HTTP. Any thread may prepare requests. The way back, from the engine's events on, is reply.py.
"""

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from whitedwarf.choices import Choices
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.guide import Guide
from whitedwarf.engine.request import GenerateOptions
from whitedwarf.errors import EngineBusyError, WhitedwarfError
from whitedwarf.prompt.encode import encode
from whitedwarf.prompt.grammar import Grammars
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Ids, Tokenizer
from whitedwarf.protocol.answer_guide import answer_guide
from whitedwarf.protocol.body_memory import BodyMemory
from whitedwarf.protocol.converted import Converted, ReplyIdentity
from whitedwarf.protocol.dialects import Dialect
from whitedwarf.protocol.engine_options import fitting_tokens, sampling_options, wanted_logprobs
from whitedwarf.protocol.form_guide import enforced_form, offered_calls
from whitedwarf.protocol.json_body import read_json
from whitedwarf.protocol.past import Past, PromptIds
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.recalled import Recalled
from whitedwarf.reply import Answering, Prepared, Reply, new_identity

LAST_TURN_ENDS = 7
"""Each may cost a chunk that ends early and a checkpoint in memory."""


class Backend(Protocol):
    """What runs prompts: the engine, or something scripted in its place."""

    @property
    def context_length(self) -> int: ...

    def submit(self, ids: Ids, options: GenerateOptions, /, *, guide: Guide | None = None) -> Generation:
        """Queue a request; EngineBusyError, EngineClosedError, ContextOverflowError."""


class Road:
    """One model's way from requests to answers, with what is remembered between them."""

    def __init__(self, engine: Backend, tokenizer: Tokenizer, policy: Policy, past: Past | None = None) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._policy = policy
        self._bodies = BodyMemory()
        self._memory = RecipeMemory()
        self._past = past or Past(tokenizer)
        self._grammars = Grammars(tokenizer)
        self._stop_ids = frozenset({tokenizer.special_id(SpecialToken.EOS)})
        self._turn_ids = [tokenizer.special_id(token) for token in (SpecialToken.USER, SpecialToken.ASSISTANT)]

    @property
    def context_length(self) -> int:
        """Tokens of prompt and answer together, at most."""
        return self._engine.context_length

    def prepare(self, body: bytes, dialect: Dialect) -> Prepared:
        """Read a request; RequestError where it is none, where no answer would fit in the context, or where the form
        that is asked for cannot be enforced."""
        converted, recalled, prompt = self._read(body, dialect)
        ids = prompt.run
        options = GenerateOptions(
            max_tokens=fitting_tokens(converted, len(ids), self.context_length, self._policy.default_max_tokens),
            stop_ids=self._stop_ids,
            sampling=sampling_options(
                converted.inference,
                is_thinking=converted.conversation.is_thinking,
                vocab_size=self._tokenizer.vocab_size,
            ),
            logprobs=wanted_logprobs(converted.inference),
            checkpoints=self._turn_ends(ids),
        )
        form, offered = enforced_form(converted, self._grammars), offered_calls(converted, self._grammars)
        return Prepared(dialect, converted, prompt, options, recalled, form, offered)

    def count_tokens(self, body: bytes, dialect: Dialect) -> int:
        """How long the prompt of this request is, whether or not it fits; RequestError where it is none."""
        return len(self._read(body, dialect)[2].run)

    def start(self, prepared: Prepared) -> Answering:
        """Queue the request with all its choices, at once, or none of them; raises what `Backend.submit` does."""
        identity = new_identity(prepared.dialect, prepared.converted.model)
        replies: list[Reply] = []
        try:
            for number in range(prepared.converted.num_choices):
                replies.append(self._start(_choice(prepared, number), identity))
        except WhitedwarfError as error:
            for reply in replies:
                reply.leave()
            if isinstance(error, EngineBusyError) and (asked := prepared.converted.num_choices) > 1:
                raise EngineBusyError(f"{error} (each of the {asked} answers takes a place in the queue)") from error
            raise
        return replies[0] if len(replies) == 1 else Choices(replies)

    def _start(self, prepared: Prepared, identity: ReplyIdentity) -> Reply:
        guide = answer_guide(prepared.converted, self._tokenizer, prepared.form, prepared.offered)
        generation = self._engine.submit(prepared.ids, prepared.options, guide=guide)
        return Reply(prepared, generation, self._tokenizer, self._past, identity)

    def _turn_ends(self, ids: Ids) -> tuple[int, ...]:
        """Where the prompt could go on otherwise: before the first turn (sub-agents share what comes before it) and
        before the last ones (an answer asked for again, a last message edited)."""
        ends: list[int] = np.flatnonzero(np.isin(ids, self._turn_ids)).tolist()
        return (*ends[:1], *ends[1:][-LAST_TURN_ENDS:])

    def _read(self, body: bytes, dialect: Dialect) -> tuple[Converted[Any], Recalled, PromptIds]:
        asked = dialect.convert(read_json(body, self._bodies), self._policy, self._memory)
        converted, recalled = self._past.completed(asked)
        prompt = encode(converted.conversation, converted.version, memory=self._memory)
        return converted, recalled, self._past.ids_of(prompt)


def _choice(prepared: Prepared, number: int) -> Prepared:
    """The same request for one choice: with a seed, each of them has the next one."""
    sampling = prepared.options.sampling
    if not number or sampling.seed is None:
        return prepared
    options = replace(prepared.options, sampling=replace(sampling, seed=sampling.seed + number))
    return replace(prepared, options=options)
