"""The grammar of a block of calls that has to come: offered tools only, their parameters only, each of its type.

Promises: what the grammar lets through is what dsml.py writes, and parse.py reads as calls whose arguments have the
members that the tool's schema requires. Parameters come in the schema's order. Of a strict tool all that its schema
says is enforced, or ToolSchemaError says what cannot be. Otherwise words of strings are free, and so is a part of a
schema that cannot be enforced, for a client's tools are what they are. Spec: product.md B.8.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt.dsml import Dialect
from whitedwarf.prompt.schema_fault import lost_reference, pointer_step
from whitedwarf.prompt.strict_tool import ToolSchemaError, check_strict_tool
from whitedwarf.prompt.text_schema import (
    ANY,
    Texts,
    UnsupportedTextError,
    allowed_texts,
    expression_term,
    is_string_only,
    text_term,
)

_TOLD_AS_TEXT, _TOLD_AS_JSON = '" string="true">', '" string="false">'
INPUT = "input"  # the one parameter of a custom tool
_DEFINITIONS = ("$defs", "$def", "definitions")
_FREE = """
TEXT: /(.|\\n)*<\\//
NAME: /[^"<>\\n]+/
"""  # a text goes on to the last `</` before a DSML token

Come: TypeAlias = Literal["", "mark", "tag"]


class Rules(Protocol):
    """What the grammar library can say."""

    def json_term(self, schema: Json) -> str | None:
        """What a JSON Schema is as a term of the grammar; None where it cannot be enforced."""

    def json_fault(self, schema: Json) -> tuple[str, str] | None:
        """Why a schema cannot be enforced, and the JSON pointer to where; None where it can."""

    def text_fault(self, term: str) -> str | None:
        """Why nothing can be drawn of a term for texts; None where it can."""


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

    def __init__(self, dialect: Dialect, dsml: int, rules: Rules) -> None:
        self._dialect = dialect
        self._mark = f"<[{dsml}]>"
        self._rules = rules

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
        return "\n".join([*rules, f"any_json: {self._rules.json_term({})}", _FREE])

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
            return
        if tool.is_strict:
            check_strict_tool(tool.name, schema)
        if isinstance(properties, dict) and properties:
            yield from self._named(rule, tool, properties, schema)
        elif "properties" in schema or schema.get("additionalProperties") is False:
            yield f"{rule}_inner: {nothing}"
        else:
            yield f"{rule}_inner: {nothing} | {rule}_any+"
            others = schema.get("additionalProperties", {})
            value = _Value(others, _definitions(schema), "/additionalProperties", tool)
            yield from self._parameter(f"{rule}_any", "NAME", value)

    def _named(
        self, rule: str, tool: ToolDefinition, properties: Mapping[str, Json], schema: Mapping[str, Json]
    ) -> Iterator[str]:
        """What may stand in a call of a tool whose parameters have names."""
        required = schema.get("required")
        needed = [name for name in required if name in properties] if isinstance(required, list) else []
        shared = _definitions(schema)
        parts = []
        for number, (name, schema_of_value) in enumerate(properties.items()):
            part = f"{rule}_{number}"
            parts.append(part if name in needed else f"{part}?")
            value = _Value(schema_of_value, shared, f"/properties{pointer_step(name)}", tool)
            yield from self._parameter(part, _text(name), value)
        yield f"{rule}_some: {' '.join(parts)}"
        yield f"{rule}_inner: {rule}_some" + ("" if needed else f" | {_text(self._dialect.no_parameters)}")

    def _parameter(self, rule: str, name: str, value: "_Value") -> Iterator[str]:
        """One parameter; `name` is a term of the grammar."""
        tag = self._dialect.parameter
        texts, ways = self._texts(value), list[str]()
        if texts is not None:
            words = "TEXT" if texts.term is None else f"{rule.upper()}_TEXT"
            if texts.term is not None:
                yield f'{words}: ({texts.term}) "</"'
            ways.append(f"{_text(_TOLD_AS_TEXT)} {words} {self._mark} {_text(f'{tag}>{chr(10)}')}")
        if texts is None or not is_string_only(value.schema):
            ways.append(f"{_text(_TOLD_AS_JSON)} {self._json(value)} {self._tag('</', f'{tag}>{chr(10)}')}")
        yield f"{rule}: {self._tag('<', f'{tag} name={chr(34)}')} {name} ({' | '.join(ways)})"

    def _texts(self, value: "_Value") -> Texts | None:
        """The words of a string; None: it is none."""
        try:
            texts = allowed_texts(value.schema, value.definitions)
        except UnsupportedTextError as error:
            if value.tool.is_strict:
                raise value.refused(str(error), f"#{error.pointer}") from error
            return ANY
        if not value.tool.is_strict:
            return texts if texts is None or texts.listed is not None else ANY
        if texts is not None and texts.term is not None and (problem := self._rules.text_fault(texts.term)):
            raise value.refused(f"its strings are not supported: {problem}", "#")
        return texts

    def _json(self, value: "_Value") -> str:
        """A value that is JSON, as a term."""
        schema = value.whole
        if value.tool.is_strict and (fault := self._rules.json_fault(schema)) is not None:
            raise value.refused(*fault)
        if lost_reference(schema) is not None:
            return "any_json"
        return self._rules.json_term(schema) or "any_json"

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


def _definitions(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {name: schema[name] for name in _DEFINITIONS if name in schema}


@dataclass(frozen=True, slots=True)
class _Value:
    """What a parameter may be: its schema, which stands at `pointer` in the tool's, and the tool's definitions."""

    schema: Json
    definitions: Mapping[str, Json]
    pointer: str
    tool: ToolDefinition

    @property
    def whole(self) -> Json:
        """The schema as one of its own."""
        if not isinstance(self.schema, dict):
            return self.schema if self.tool.is_strict else {}
        own = {name: part for name, part in self.schema.items() if name not in _DEFINITIONS}
        return {**own, **self.definitions}

    def refused(self, problem: str, pointer: str) -> ToolSchemaError:
        """What is told of it; `pointer` leads from the parameter's schema or to a definition."""
        steps = pointer.removeprefix("#")
        is_shared = any(steps.startswith(f"/{name}/") for name in self.definitions)
        return ToolSchemaError(self.tool.name, problem, f"#{steps}" if is_shared else f"#{self.pointer}{steps}")


_text = text_term
