"""The grammar of a block of calls that has to come: offered tools only, their parameters only, each of its type.

Promises: what the grammar lets through is what dsml.py writes, and parse.py reads as calls whose arguments have the
members that the tool's schema requires. Parameters come in the schema's order. Words of strings are free; a part of a
schema that cannot be enforced is left free too, for a client's tools are what they are. Spec: product.md B.8.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt.dsml import Dialect

_TOLD_AS_TEXT, _TOLD_AS_JSON = '" string="true">', '" string="false">'
_IN_EXPRESSION = re.compile(r"(\\[^\n])|/|\n")  # what is escaped already, and what has to be
INPUT = "input"  # the one parameter of a custom tool
_DEFINITIONS = ("$defs", "definitions")
_FREE = """
TEXT: /(.|\\n)*<\\//
NAME: /[^"<>\\n]+/
"""  # a text goes on to the last `</` before a DSML token

Come: TypeAlias = Literal["", "mark", "tag"]
JsonRule = Callable[[Json], str | None]
"""What a JSON Schema is as a term of the grammar; None where it cannot be enforced."""


@dataclass(frozen=True, slots=True)
class InputForm:
    """What the one text that a custom tool takes has to be like."""

    syntax: Literal["lark", "regex"]
    definition: str


@dataclass(frozen=True, slots=True)
class WantedCalls:
    """What is wanted of a block: `come` says what of its opening tag has come, nothing, its control token (`mark`), or
    all of it (`tag`); `is_single`: one call, no more; `or_words`: a term of what may come in its stead;
    `forms`: of custom tools' inputs, by the tool's name."""

    come: Come = ""
    is_single: bool = False
    or_words: str | None = None
    forms: tuple[tuple[str, InputForm], ...] = ()


class CallGrammar:
    """Writes grammars in the library's language (Lark) for one way to spell tags; `dsml` is the control token's id."""

    def __init__(self, dialect: Dialect, dsml: int, json_rule: JsonRule) -> None:
        self._dialect = dialect
        self._mark = f"<[{dsml}]>"
        self._json_rule = json_rule

    def block(self, tools: Sequence[ToolDefinition], wanted: "WantedCalls") -> str:
        """One call or more, to the end of the block."""
        calls, call = self._dialect.calls, "call" if wanted.is_single else "call+"
        openings = {"": self._tag("\n\n<", f"{calls}>\n"), "mark": _text(f"{calls}>\n"), "tag": ""}
        block = f"{openings[wanted.come]} {call} {self._tag('</', f'{calls}>')}"
        rules = [f"start: {block}" if wanted.or_words is None else f"start: {block} | {wanted.or_words}"]
        rules.append("call: " + " | ".join(f"call_{number}" for number in range(len(tools))))
        forms = dict(wanted.forms)
        for number, tool in enumerate(tools):
            rules += self._call(f"call_{number}", tool, forms.get(tool.name))
        return "\n".join([*rules, f"any_json: {self._json_rule({})}", _FREE])

    def _call(self, rule: str, tool: ToolDefinition, form: InputForm | None) -> Iterator[str]:
        invoke = self._dialect.invoke
        opening, closing = self._tag("<", f'{invoke} name="{tool.name}">\n'), self._tag("</", f"{invoke}>\n")
        schema = tool.parameters if isinstance(tool.parameters, dict) else {}
        properties = schema.get("properties")
        nothing = _text(self._dialect.no_parameters)
        yield f"{rule}: {opening} {rule}_inner {closing}"
        if form is not None:
            yield f"{rule}_inner: {self._input(f'{rule}_input')}"
            yield f"{rule}_input: {form_term(form)}"
        elif isinstance(properties, dict) and properties:
            yield from self._named(rule, properties, schema)
        elif "properties" in schema or schema.get("additionalProperties") is False:
            yield f"{rule}_inner: {nothing}"
        else:
            yield f"{rule}_inner: {nothing} | {rule}_any+"
            yield f"{rule}_any: {self._parameter('NAME', {})}"

    def _named(self, rule: str, properties: Mapping[str, Json], schema: Mapping[str, Json]) -> Iterator[str]:
        """What may stand in a call of a tool whose parameters have names."""
        required = schema.get("required")
        needed = [name for name in required if name in properties] if isinstance(required, list) else []
        shared = {name: schema[name] for name in _DEFINITIONS if name in schema}
        parts = []
        for number, (name, value) in enumerate(properties.items()):
            part = f"{rule}_{number}"
            parts.append(part if name in needed else f"{part}?")
            yield f"{part}: {self._parameter(_text(name), {**shared, **value} if isinstance(value, dict) else {})}"
        yield f"{rule}_some: {' '.join(parts)}"
        yield f"{rule}_inner: {rule}_some" + ("" if needed else f" | {_text(self._dialect.no_parameters)}")

    def _parameter(self, name: str, schema: Mapping[str, Json]) -> str:
        """One parameter; `name` is a term of the grammar."""
        tag = self._dialect.parameter
        ways = []
        if _may_be_string(schema):
            ways.append(f"{_text(_TOLD_AS_TEXT)} {_words(schema)} {self._mark} {_text(f'{tag}>{chr(10)}')}")
        if not _is_string(schema):
            value = self._json_rule(dict(schema)) or "any_json"
            ways.append(f"{_text(_TOLD_AS_JSON)} {value} {self._tag('</', f'{tag}>{chr(10)}')}")
        return f"{self._tag('<', f'{tag} name={chr(34)}')} {name} ({' | '.join(ways)})"

    def _input(self, rule: str) -> str:
        """The parameter of a custom tool, of a form of its own."""
        tag = self._dialect.parameter
        opening = self._tag("<", f'{tag} name="{INPUT}{_TOLD_AS_TEXT}')
        return f"{opening} {rule} {self._tag('</', f'{tag}>{chr(10)}')}"

    def _tag(self, before: str, behind: str) -> str:
        """A tag: what stands before its control token, and behind."""
        return f"{_text(before)} {self._mark} {_text(behind)}"


def form_term(form: InputForm) -> str:
    """The form as a term of the library's language."""
    if form.syntax == "regex":
        return expression_term(form.definition)
    return f"%lark {{\n{form.definition}\n}}"


def expression_term(pattern: str) -> str:
    """An expression as a term of the library's language."""
    told = _IN_EXPRESSION.sub(lambda found: found[1] or {"/": "\\/", "\n": "\\n"}[found[0]], pattern)
    return f"/{told}/"


def _words(schema: Mapping[str, Json]) -> str:
    """The words of a string and the `</` behind them."""
    strings = [value for value in _values(schema) or () if isinstance(value, str)]
    return f"({' | '.join(_text(value + '</') for value in strings)})" if strings else "TEXT"


def _may_be_string(schema: Mapping[str, Json]) -> bool:
    values = _values(schema)
    if values is not None:
        return any(isinstance(value, str) for value in values)
    kind = schema.get("type", "string")
    return kind == "string" or (isinstance(kind, list) and "string" in kind)


def _is_string(schema: Mapping[str, Json]) -> bool:
    values = _values(schema)
    if values is not None:
        return all(isinstance(value, str) for value in values)
    return schema.get("type") in ("string", ["string"])


def _values(schema: Mapping[str, Json]) -> list[Json] | None:
    """The only values there are; None: it does not say."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return values if isinstance(values, list) and values else None


def _text(text: str) -> str:
    """A term for exactly this text."""
    return json.dumps(text, ensure_ascii=False)
