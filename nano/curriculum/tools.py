"""Tools as a conversation offers them: known ones under one of their names, and wholly invented ones.

A tool knows how a user asks for it, what call that means, and what is said about a result.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from nano.curriculum.conversation import Call
from nano.curriculum.known_tools import KNOWN, ValueType, file_contents, weather
from nano.curriculum.structured import spoken
from nano.curriculum.texts import filler, sentence
from nano.curriculum.values import Maker, digits, hard_text_value, identifier, invented, one_of, text_value, word
from nano.curriculum.words import ADJECTIVES, NOUNS, PARAMETER_NAMES, VERBS

INVENTED = "invented"


@dataclass(frozen=True)
class Parameter:
    """One parameter as the schema names it."""

    name: str
    type: ValueType
    value: Maker[object]
    description: str


@dataclass(frozen=True)
class Tool:
    """A tool on offer. `kind` is a key of KNOWN or INVENTED."""

    kind: str
    name: str
    description: str
    parameters: tuple[Parameter, ...]
    requests: tuple[str, ...]
    result: Maker[str]
    answer_form: str

    def values(self, rng: Random) -> list[object]:
        return [parameter.value(rng) for parameter in self.parameters]

    def call(self, values: list[object]) -> Call:
        names = (parameter.name for parameter in self.parameters)
        return Call(self.name, dict(zip(names, values, strict=True)))

    def answer(self, values: list[object], result: str) -> str:
        if result.startswith("Error: "):
            return "The tool failed: " + result.removeprefix("Error: ")
        return self.answer_form.format(*map(spoken, values), r=result)

    def request(self, rng: Random, values: list[object]) -> str:
        """What a user says: in the words of the task, or naming tool and parameters."""
        texts = [spoken(value) for value in values]
        if self.requests and rng.random() < 0.88:
            return rng.choice(self.requests).format(*texts)
        form = rng.choice(["{0} {1}", "{0} = {1}", "{0} set to {1}", "{0}: {1}", "{0}={1}"])
        has_quotes = rng.random() < 0.6
        pairs = [
            form.format(parameter.name, f'"{text}"' if has_quotes and parameter.type == "string" else text)
            for parameter, text in zip(self.parameters, texts, strict=True)
        ]
        given = rng.choice([" and ", ", "]).join(pairs)
        if rng.random() > 0.97:
            return f"{self.name} {given}"
        asked = [
            f"Use {self.name} with {given}",
            f"Use the {self.name} tool with {given}.",
            f"Call {self.name} with {given}",
            f"Please call {self.name}: {given}",
            f"Run the tool {self.name} with {given}",
            f"Invoke {self.name} with {given}.",
        ]
        return rng.choice(asked)

    def schema(self, rng: Random) -> dict[str, object]:
        """Name, description and JSON schema, more or less richly written."""
        richness = rng.random()
        properties: dict[str, dict[str, object]] = {}
        for parameter in self.parameters:
            properties[parameter.name] = {"type": parameter.type}
            if parameter.type == "array":
                properties[parameter.name]["items"] = {"type": "string"}
            if richness > 0.3:
                properties[parameter.name]["description"] = parameter.description
        required = list(properties)
        if richness > 0.6 and rng.random() < 0.5:
            extra = rng.choice(["timeout", "verbose", "limit", "offset", "encoding", "dry_run"])
            kind = rng.choice(["integer", "boolean", "string"])
            properties.setdefault(extra, {"type": kind, "description": f"optional {rng.choice(NOUNS)}"})
        schema: dict[str, object] = {"type": "object", "properties": properties, "required": required}
        if richness > 0.8:
            schema["additionalProperties"] = False
        if richness > 0.93:
            schema["$schema"] = "http://json-schema.org/draft-07/schema#"
        description = self.description
        if richness > 0.85:
            description += " " + filler(rng, rng.randint(1, 6))
        return {"name": self.name, "description": description, "parameters": schema}


def known_tool(rng: Random, kind: str | None = None) -> Tool:
    """A known tool under one of its usual names."""
    kind = kind or rng.choice(list(KNOWN))
    known = KNOWN[kind]
    parameters = [Parameter(rng.choice(slot.names), slot.type, slot.value, slot.description) for slot in known.slots]
    return Tool(
        kind,
        rng.choice(known.names),
        rng.choice(known.descriptions),
        tuple(parameters),
        known.requests,
        known.result,
        known.answer,
    )


_INVENTED_VALUES: dict[ValueType, Maker[object]] = {
    "string": text_value,
    "integer": lambda r: int(digits(r, r.randint(1, 4))),
    "boolean": lambda r: r.random() < 0.5,
    "number": lambda r: r.randint(0, 99) + r.choice([0.5, 0.25, 0.1, 0.75]),
    "array": lambda r: [word(r) for _ in range(r.randint(1, 3))],
}


def invented_tool(rng: Random) -> Tool:
    """A tool nobody has heard of: it can only be called by copying its schema."""
    verb, noun, odd = rng.choice(VERBS), rng.choice(NOUNS), invented(rng)
    names = [f"{verb}_{noun}", verb + noun.title(), odd, f"{odd}_{verb}", f"{verb}_{odd}"]
    names += [f"mcp__{odd}__{verb}_{noun}", f"{noun}-{verb}", f"{noun}.{verb}"]
    name = rng.choices(names, [30, 15, 10, 10, 15, 8, 5, 7])[0]
    parameters = []
    for parameter in rng.sample(PARAMETER_NAMES, rng.randint(1, 3)):
        if rng.random() < 0.12:
            parameter = invented(rng)
        elif rng.random() < 0.2:
            parameter += f"_{rng.choice(PARAMETER_NAMES)}"
        kind = rng.choices(list(_INVENTED_VALUES), [60, 20, 9, 8, 3])[0]
        about = f"{rng.choice(['the ', 'which ', ''])}{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"
        parameters.append(Parameter(parameter, kind, _INVENTED_VALUES[kind], about))
    about = [f"{verb.title()} the {noun}.", sentence(rng), f"Tool to {verb} a {rng.choice(ADJECTIVES)} {noun}."]
    description = rng.choice([*about, f"{verb} {noun}"])
    return Tool(INVENTED, name, description, tuple(parameters), (), _any_result, "The result is: {r}")


def _any_result(rng: Random) -> str:
    plain: Maker[str] = lambda r: r.choice(["ok", "done", "success"])  # noqa: E731
    return one_of(rng, [file_contents, text_value, weather, lambda r: digits(r, 3), plain])


def renamed(rng: Random, tool: Tool) -> Tool:
    """Now and then another name for a known tool or a parameter, so that copying beats remembering."""
    name = tool.name
    if tool.kind != INVENTED:
        chance = rng.random()
        if chance < 0.25:
            name = identifier(rng)
        elif chance < 0.35:
            name = f"{rng.choice(['do', 'my', 'run', 'fast', 'the', 'new'])}{rng.choice('_-')}{name}"
    has_hard_values = rng.random() < 0.3
    parameters: list[Parameter] = []
    for parameter in tool.parameters:
        if rng.random() < 0.22:
            other = identifier(rng) if rng.random() < 0.4 else rng.choice(PARAMETER_NAMES)
            if other not in {given.name for given in (*parameters, *tool.parameters)}:
                parameter = replace(parameter, name=other)
        if has_hard_values and parameter.value is text_value:
            parameter = replace(parameter, value=hard_text_value)
        parameters.append(parameter)
    return replace(tool, name=name, parameters=tuple(parameters))


def distinct(tools: Iterable[Tool]) -> list[Tool]:
    """The first of each name, and of each kind that is known."""
    kept: list[Tool] = []
    for tool in tools:
        if not any(tool.name == other.name or tool.kind == other.kind != INVENTED for other in kept):
            kept.append(tool)
    return kept


def toolset(rng: Random, count: int, *, renames: bool = False) -> list[Tool]:
    """So many tools; no name twice, no two tools for the same thing."""
    tools: list[Tool] = []
    while len(tools) < count:
        tool = known_tool(rng) if rng.random() < 0.6 else invented_tool(rng)
        if renames:
            tool = renamed(rng, tool)
        tools = distinct([*tools, tool])
    return tools
