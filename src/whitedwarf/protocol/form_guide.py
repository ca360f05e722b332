"""Steers an answer of a given form (JSON, an expression, a call that has to come): what is drawn is of the form.

Promises: of `Guide`. The form begins behind the thought, which cannot end the answer; where nothing more may come, the
answer is over. A limit on tokens or a stop string may still cut it short.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whitedwarf.conversation.message import AssistantMessage
from whitedwarf.conversation.options import ConstraintKind
from whitedwarf.conversation.response_format import JsonObject, JsonSchema, PlainText, Regex
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.engine.guide import FREE, Course, Mask
from whitedwarf.prompt.call_grammar import Come, WantedCalls
from whitedwarf.prompt.dsml import V4, V41
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.grammar import Grammar, Grammars
from whitedwarf.prompt.parse_options import ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.tool_paths import named_by_path

_OVER = Course(is_over=True)
_ANY_OBJECT = {"type": "object"}
_DIALECTS = {ModelVersion.V4: V4, ModelVersion.V41: V41}


class FormGuide:
    """The `Guide` of one answer; `is_thinking`: the prompt has begun a thought."""

    def __init__(self, grammar: Grammar, tokenizer: Tokenizer, *, is_thinking: bool) -> None:
        self._matcher = grammar.matcher()
        self._thought_mask = _all_but(tokenizer.special_id(SpecialToken.EOS), tokenizer.vocab_size)
        self._thought_end = tokenizer.special_id(SpecialToken.THINK_CLOSE)
        self._is_thinking = is_thinking
        self._is_followed = True  # no longer, once a scripted engine has said what is not of the form
        self._is_asked = False

    @property
    def course(self) -> Course:
        """A form has its first token."""
        return FREE

    def mask(self) -> Mask | None:
        """What the form allows next; in a thought anything but the end."""
        self._is_asked = True
        return self._thought_mask if self._is_thinking else self._matcher.mask()

    def forced(self) -> Sequence[int]:
        """What the form has next, whatever is drawn."""
        return () if self._is_thinking or not self._is_followed else self._matcher.forced()

    def accept(self, token: int) -> Course:
        """This token was drawn. RuntimeError where the mask forbade it; who never asked for a mask may say anything."""
        if self._is_thinking:
            self._is_thinking = token != self._thought_end
        elif self._is_followed:
            return self._follow(token)
        return FREE

    def _follow(self, token: int) -> Course:
        try:
            self._matcher.accept(token)
        except RuntimeError:
            if self._is_asked:
                raise
            self._is_followed = False
            return FREE
        return _OVER if self._matcher.is_over else FREE


def enforced_form(converted: Converted[Any], grammars: Grammars) -> Grammar | None:
    """The form that this answer has to have from its first token on, or from behind its thought; None: any.

    RequestError naming what in it is not supported.
    """
    with named_by_path(converted.tool_paths):
        return _enforced_form(converted, grammars)


def _enforced_form(converted: Converted[Any], grammars: Grammars) -> Grammar | None:
    constraint = converted.constraint
    if constraint is None:
        return None
    match constraint.kind:
        case ConstraintKind.JSON:
            schema = json.loads(constraint.schema) if constraint.schema else _ANY_OBJECT
            return grammars.of_schema(schema).continued(_beginning(converted))
        case ConstraintKind.REGEX:
            return grammars.of_regex(constraint.schema).continued(_beginning(converted))
        case ConstraintKind.TOOL_CALL_REQUIRED:
            come: Come = "tag" if converted.parsing.starts_in_tool_calls else ""
            wanted = _wanted(converted, come)
            return grammars.of_calls(converted.conversation.tools, _DIALECTS[converted.version], wanted)
        case ConstraintKind.TOOL_CALL:
            return _words_of_form(converted, grammars)


def _words_of_form(converted: Converted[Any], grammars: Grammars) -> Grammar | None:
    """Where tools may be called: words of the form that is asked for, or calls; None where words are free."""
    tools, dialect = shown_tools(converted), _DIALECTS[converted.version]
    wanted = _wanted(converted, "")
    match converted.conversation.response_format:
        case PlainText():
            return None
        case JsonObject():
            return grammars.of_schema_or_calls(_ANY_OBJECT, tools, dialect, wanted)
        case JsonSchema(schema):
            return grammars.of_schema_or_calls(schema, tools, dialect, wanted)
        case Regex(pattern):
            return grammars.of_regex_or_calls(pattern, tools, dialect, wanted)


def offered_calls(converted: Converted[Any], grammars: Grammars) -> Grammar | None:
    """What calls have to be like from the control token of their opening tag on, in an answer that may also be words.

    None where nothing about them is asked for: no tool is strict or has a form, and there may be several calls.
    RequestError naming what in a strict tool's schema cannot be enforced, and where it stands.
    """
    with named_by_path(converted.tool_paths):
        return _offered_calls(converted, grammars)


def _offered_calls(converted: Converted[Any], grammars: Grammars) -> Grammar | None:
    constraint = converted.constraint
    is_free = constraint is None or constraint.kind is not ConstraintKind.TOOL_CALL
    if is_free or not isinstance(converted.conversation.response_format, PlainText):
        return None
    tools, forms = converted.conversation.tools, converted.input_forms
    if not (converted.takes_one_call or any(tool.is_strict or tool.name in forms for tool in tools)):
        return None
    wanted = _wanted(converted, "mark")
    return grammars.of_calls(shown_tools(converted), _DIALECTS[converted.version], wanted)


def _wanted(converted: Converted[Any], come: Come) -> WantedCalls:
    offered = [tool.name for tool in converted.conversation.tools if tool.name in converted.input_forms]
    forms = tuple([(name, converted.input_forms[name]) for name in offered])
    return WantedCalls(come, converted.takes_one_call, forms=forms)


def shown_tools(converted: Converted[Any]) -> tuple[ToolDefinition, ...]:
    """The tools with the parameters that are enforced: those that are not strict may have any."""
    tools = converted.conversation.tools
    return tuple([tool if tool.is_strict else replace(tool, parameters=None) for tool in tools])


def form_guide(converted: Converted[Any], tokenizer: Tokenizer, form: Grammar) -> FormGuide:
    """What holds the answer to this request to its form."""
    parsing = converted.parsing
    thinks = parsing.start in (ParseStart.REASONING, ParseStart.REASONING_CONTINUED)
    return FormGuide(form, tokenizer, is_thinking=thinks and not parsing.starts_in_tool_calls)


def _beginning(converted: Converted[Any]) -> str:
    """What the prompt has of the answer already."""
    messages = converted.conversation.messages
    last = messages[-1] if messages else None
    return last.content if isinstance(last, AssistantMessage) and last.is_prefix else ""


def _all_but(token: int, vocab_size: int) -> Mask:
    allowed = np.ones(vocab_size, np.bool_)
    allowed[token] = False
    return np.packbits(allowed, bitorder="little")
