"""Which tokens may come next in an answer of a given form. The only place that knows `llguidance`.

Promises: what a matcher lets through to its end is of that form; a control token is never let through, but for the end
of the answer where the form is complete. JSON is compact: at most one blank behind a comma or a colon, none elsewhere;
an object's named members come in the schema's order. What cannot be promised is refused before anything is drawn.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from llguidance.numpy import allocate_token_bitmask

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.errors import RequestError
from whitedwarf.prompt.bounded_cache import BoundedCache
from whitedwarf.prompt.bounded_schema import UnsupportedSchemaError, bounded_schema
from whitedwarf.prompt.call_grammar import CallGrammar, WantedCalls, expression_term, form_term
from whitedwarf.prompt.dsml import Dialect
from whitedwarf.prompt.schema_fault import fault_pointer
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

Mask = npt.NDArray[np.uint8]
"""One bit a token, lowest bit first: 1 where it may come."""

JSON_STYLE: Any = {  # of a type that the library has in its stubs only
    "item_separator": ", ?",
    "key_separator": ": ?",
    "whitespace_flexible": False,
    "lenient": False,
    "coerce_one_of": False,
    # Not \u: a name spelt with it would be a second member of a name that is taken, with a value of any kind.
    "json_allowed_escapes": 'nrbtf\\"',
}
_LIMITS = LLParserLimits(verbose_errors=False, initial_lexer_fuel=10_000_000)  # tools come by the hundred
_CALLS_BYTES = 64 << 20
_COMPILED_BYTES = 100  # about, for each byte of a schema
_LONGEST_POINTER = 300
_WHERE = re.compile(r"\n\s*(\d+ )?\|.*", re.DOTALL)  # the library quotes its own grammar, which nobody wrote
_ADVICE = re.compile(r" Enable 'coerce_one_of'.*", re.DOTALL)


class Grammars:
    """Those of one tokenizer; any thread may ask. The first one costs some tenths of a second."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._calls: BoundedCache[tuple[str, Dialect, WantedCalls], Grammar] = BoundedCache(_CALLS_BYTES, _calls_bytes)

    def of_schema(self, schema: Json) -> "Grammar":
        """JSON that a JSON Schema allows; RequestError naming what in it is not supported."""
        try:
            grammar = LLMatcher.grammar_from_json_schema(json.dumps(_bounded(schema)), overrides=JSON_STYLE)
        except ValueError as error:  # also a lone surrogate, or nested more deeply than the library reads
            raise _refusal("json schema", f"{_told(str(error))}{_where(schema)}") from error
        try:
            return self._compiled(grammar, "json schema")
        except RequestError as error:
            raise RequestError(f"{error}{_where(schema)}") from error

    def of_regex(self, pattern: str) -> "Grammar":
        """Text that the expression matches as a whole; RequestError for an expression that is not supported."""
        return self._compiled(LLMatcher.grammar_from_regex(pattern), "regex")

    def of_calls(self, tools: Sequence[ToolDefinition], dialect: Dialect, wanted: WantedCalls) -> "Grammar":
        """A block of calls of these tools (call_grammar.py); RequestError where there are too many, or naming the one
        whose form cannot be enforced.

        An agent's many tools cost tens of milliseconds; they come again with every turn, so they are remembered.
        """
        listing = json.dumps([[tool.name, tool.parameters] for tool in tools])
        return self._calls.recall((listing, dialect, wanted), partial(self._of_calls, tools, dialect, wanted))

    def of_schema_or_calls(
        self, schema: Json, tools: Sequence[ToolDefinition], dialect: Dialect, wanted: WantedCalls
    ) -> "Grammar":
        """JSON that the schema allows, or calls; RequestError as for each of them."""
        self.of_schema(schema)  # says what is not supported
        term = _json_rule(schema)
        return self.of_calls(tools, dialect, replace(wanted, or_words=term))

    def of_regex_or_calls(
        self, pattern: str, tools: Sequence[ToolDefinition], dialect: Dialect, wanted: WantedCalls
    ) -> "Grammar":
        """Text that the expression matches as a whole, or calls; RequestError as for each of them."""
        self.of_regex(pattern)
        return self.of_calls(tools, dialect, replace(wanted, or_words=expression_term(pattern)))

    def _of_calls(self, tools: Sequence[ToolDefinition], dialect: Dialect, wanted: WantedCalls) -> "Grammar":
        writer = CallGrammar(dialect, self._tokenizer.special_id(SpecialToken.DSML), _json_rule)
        for name, form in wanted.forms:
            if problem := LLMatcher.validate_grammar(f"start: form\nform: {form_term(form)}", limits=_LIMITS):
                raise _refusal(f"{form.syntax} grammar of the tool {name}", problem)
        return self._compiled(writer.block(tools, wanted), "choice of tools")

    def _compiled(self, grammar: str, what: str) -> "Grammar":
        matcher = LLMatcher(self._library, grammar, log_level=0, limits=_LIMITS)
        matcher.compute_bitmask()  # now, not on the engine's thread; and it shows whether there is a beginning at all
        if matcher.is_error():
            raise _refusal(what, matcher.get_error())
        return Grammar(matcher, self._tokenizer)

    @cached_property
    def _library(self) -> LLTokenizer:
        tokens = self._tokenizer.vocab_size
        return LLTokenizer(_wrapped(self._tokenizer), n_vocab=tokens, slices=LLTokenizer.json_slices())


class Grammar:
    """A form, compiled once; each answer gets a matcher of its own."""

    def __init__(self, start: LLMatcher, tokenizer: Tokenizer) -> None:
        self._start = start
        self._tokenizer = tokenizer

    def matcher(self) -> "Matcher":
        """At the beginning of an answer."""
        return Matcher(self._start.deep_copy(), self._tokenizer.vocab_size)

    def continued(self, beginning: str) -> "Grammar":
        """For an answer of which the prompt has the beginning; RequestError where the form does not begin so."""
        if not beginning:
            return self
        start = self._start.deep_copy()
        if not start.consume_tokens(self._tokenizer.encode(beginning)):
            raise RequestError(
                f"The answer's beginning {beginning[:80]!r} is not of the form that is asked for: expected a beginning "
                "that the form allows, or none. Forms of JSON have at most one blank behind a comma or a colon."
            )
        return Grammar(start, self._tokenizer)


def _calls_bytes(key: tuple[str, Dialect, WantedCalls], grammar: Grammar) -> int:
    forms = sum(len(form.definition) for _, form in key[2].forms)
    return (len(key[0]) + len(key[2].or_words or "") + forms) * _COMPILED_BYTES


class Matcher:
    """Follows one answer, one thread at a time."""

    def __init__(self, matcher: LLMatcher, vocab_size: int) -> None:
        self._matcher = matcher
        self._words = allocate_token_bitmask(1, vocab_size)
        self._address = self._words.ctypes.data  # asked once: numpy takes microseconds for it
        self._mask: Mask = self._words[0].view(np.uint8)

    @property
    def is_over(self) -> bool:
        """Whether nothing may come but the end."""
        return self._matcher.is_stopped()

    def mask(self) -> Mask:
        """What may come next; the array is written anew by the next call. RuntimeError beyond the library's limits."""
        self._matcher.unsafe_compute_mask_ptr(self._address, self._words.nbytes)
        self._check()
        return self._mask

    def forced(self) -> list[int]:
        """Tokens of the text that has to come next; none where there is a choice."""
        tokens: list[int] = self._matcher.compute_ff_tokens()
        return tokens

    def accept(self, token: int) -> None:
        """This token came; RuntimeError where it may not."""
        self._matcher.consume_token(token)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise RuntimeError(f"the answer's form cannot be followed any further: {_told(self._matcher.get_error())}")


def _bounded(schema: Json) -> dict[str, Json]:
    """The schema as an object; ValueError for what cannot be followed."""
    try:
        bounded = bounded_schema({} if schema is True else schema)
    except RecursionError:
        raise UnsupportedSchemaError("it is nested too deeply") from None
    if not isinstance(bounded, dict):
        raise UnsupportedSchemaError(f"expected an object, got {json.dumps(bounded)[:40]}")
    return bounded


def _json_rule(schema: Json) -> str | None:
    """A schema as a term of the library's language; None for what cannot be followed."""
    try:
        rule = json.dumps({**_bounded(schema), "x-guidance": JSON_STYLE})
        problem = LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(rule), limits=_LIMITS)
    except ValueError:
        return None
    return None if problem else f"%json {rule}"


def _where(schema: Json) -> str:
    """Which part of a schema is to blame, where it is not all of it."""
    try:
        pointer = fault_pointer(schema, lambda part: _json_rule(part) is not None)
    except RecursionError:  # nested more deeply than anything reads
        return ""
    return "" if pointer == "#" else f" (at {pointer[:_LONGEST_POINTER]})"


def _refusal(what: str, problem: str) -> RequestError:
    return RequestError(f"This {what} cannot be enforced: {_told(problem)}")


def _told(problem: str) -> str:
    """A message of the library's in one line, without its advice on itself."""
    if problem.startswith("NoExtension"):
        return "no text is of this form"
    short = _ADVICE.sub("", _WHERE.sub("", problem)).replace("<non-verbose/>", "")
    return " ".join(short.split())


class _Spelt:
    """A tokenizer as the library wants to see one."""

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.eos_token_id = tokenizer.special_id(SpecialToken.EOS)
        self.tokens = [tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)]
        self.special_token_ids = sorted(tokenizer.vocabulary.special_ids.values())
        self._encode = tokenizer.encode

    def __call__(self, text: str | bytes) -> list[int]:
        return self._encode(text.decode() if isinstance(text, bytes) else text)


def _wrapped(tokenizer: Tokenizer) -> TokenizerWrapper:
    return TokenizerWrapper(_Spelt(tokenizer))
