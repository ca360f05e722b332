"""What a strict tool's schema may say: no keyword of it may be one that nobody enforces.

Promises: the first such place, by a JSON pointer. Does not know whether the grammar library follows the keywords that
it lets through: that is found out when the grammar is written (call_grammar.py).
"""

from collections.abc import Iterator, Mapping

from whitedwarf.conversation.json_value import Json
from whitedwarf.errors import RequestError
from whitedwarf.prompt.schema_fault import children, lost_reference, pointer_step

ADVICE = "Leave `strict` off, or change the keyword."
_DEFINITIONS = frozenset({"$defs", "$def", "definitions"})
_SAYINGS = frozenset(
    """title description $comment $schema $id $anchor default example examples deprecated readOnly writeOnly
    contentEncoding contentMediaType contentSchema""".split()  # noqa: SIM905
)  # keywords that ask nothing of a value
_OF_TOOLS = _SAYINGS | _DEFINITIONS | {"type", "properties", "required", "additionalProperties"}
_KEYWORDS = _OF_TOOLS | frozenset(
    """enum const pattern minLength maxLength format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf
    items prefixItems additionalItems minItems maxItems uniqueItems contains minContains maxContains unevaluatedItems
    patternProperties minProperties maxProperties propertyNames dependentRequired dependentSchemas dependencies
    unevaluatedProperties anyOf oneOf allOf not if then else $ref $dynamicRef $dynamicAnchor $recursiveRef
    $recursiveAnchor""".split()  # noqa: SIM905
)
_LONGEST = 300


class ToolSchemaError(RequestError):
    """A strict tool's schema that cannot be enforced; `path` may be the client's name for where the schema stands."""

    def __init__(self, tool: str, problem: str, pointer: str, path: str | None = None) -> None:
        self.tool, self.problem, self.pointer = tool, problem, pointer
        where = f"the parameters of the strict tool {tool!r}" if path is None else f"{path} (strict tool {tool!r})"
        super().__init__(f"{where} cannot be enforced at {pointer[:_LONGEST]}: {problem}. {ADVICE}")


def check_strict_tool(tool: str, schema: Mapping[str, Json]) -> None:
    """ToolSchemaError for what cannot be enforced whatever the values are."""
    for problem, pointer in _faults(schema):
        raise ToolSchemaError(tool, problem, pointer)


def _faults(schema: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    if schema.get("type", "object") != "object":
        yield 'expected the type "object", for a call has named parameters', "#/type"
    for keyword in schema:
        if keyword in _KEYWORDS - _OF_TOOLS:
            yield f"{keyword} is not enforced for all parameters together", f"#{pointer_step(keyword)}"
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict):
        yield "expected an object of schemas by name", "#/properties"
        return
    if not isinstance(required, list):
        yield "expected a list of names", "#/required"
        return
    for number, name in enumerate(required):
        if name not in properties:
            yield f"{name!r} is required, but not among the properties", f"#/required/{number}"
    if (lost := lost_reference(dict(schema))) is not None:
        yield f"{lost[0]!r} refers to something else than a definition (#/$defs/name)", lost[1]
    yield from _unknown(schema, "#")


def _unknown(schema: Mapping[str, Json], pointer: str) -> Iterator[tuple[str, str]]:
    """Keywords that no draft of JSON Schema has: perhaps misspelt."""
    waiting: list[tuple[Json, str]] = [(dict(schema), pointer)]
    while waiting:
        part, place = waiting.pop()
        for keyword in part if isinstance(part, dict) else ():
            if keyword not in _KEYWORDS and not keyword.startswith("x-"):
                yield f"{keyword} is no keyword that is known here", f"{place}{pointer_step(keyword)}"
        waiting += [(child, place + step) for step, child in children(part)]
