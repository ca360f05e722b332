"""Which texts a JSON Schema allows, as a term of the grammar library's language: calls carry strings without quotes.

Promises: a text of the term is a string that the schema allows; UnsupportedTextError where there may be such strings
but no term promises them. Other kinds of values are none of its business. Does not know whether the library takes the
term.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.text_formats import TEXT_FORMATS
from whitedwarf.prompt.text_pattern import text_pattern

_IN_EXPRESSION = re.compile(r"(\\[^\n])|/|\n")  # what is escaped already, and what has to be
_UNTOLD = ("not", "if", "$dynamicRef", "$recursiveRef")  # what no term is written for
LONGEST_TERM = 200_000  # characters
_BOUNDS = ("minLength", "maxLength")


class UnsupportedTextError(ValueError):
    """Strings that cannot be promised: the text says why; `pointer` where, from the schema that was asked about."""

    def __init__(self, problem: str, pointer: str) -> None:
        super().__init__(problem)
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of a `term`, None: any at all; `listed`: the very texts, where the schema lists them."""

    term: str | None
    listed: frozenset[str] | None = None


ANY = Texts(None)


def allowed_texts(schema: Json, definitions: Mapping[str, Json]) -> Texts | None:
    """The strings that the schema allows; None: none. `definitions` are its root's, by keyword."""
    try:
        return _Reading(definitions).texts(schema, "", ())
    except RecursionError:
        raise UnsupportedTextError("it is nested too deeply", "") from None


def is_string_only(schema: Json) -> bool:
    """Whether it is plain that the schema allows strings only."""
    if not isinstance(schema, dict):
        return False
    values = listed_values(schema)
    if values is not None and all(isinstance(value, str) for value in values):
        return True
    if schema.get("type") in ("string", ["string"]):
        return True
    return any(
        isinstance(choices := schema.get(name), list) and choices and all(map(is_string_only, choices))
        for name in ("anyOf", "oneOf")
    )


def listed_values(schema: Mapping[str, Json]) -> list[Json] | None:
    """The only values there are; None: it does not say."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return values if isinstance(values, list) else None


def expression_term(pattern: str) -> str:
    """An expression as a term of the library's language."""
    told = _IN_EXPRESSION.sub(lambda found: found[1] or {"/": "\\/", "\n": "\\n"}[found[0]], pattern)
    return f"/{told}/"


def text_term(text: str) -> str:
    """A term for exactly this text."""
    return json.dumps(text, ensure_ascii=False)


class _Reading:
    """Goes through one schema; `pointer` is where, `followed` the references on the way there."""

    def __init__(self, definitions: Mapping[str, Json]) -> None:
        self._definitions = definitions
        self._known: dict[str, Texts | None] = {}  # by reference: definitions may fork at every step

    def texts(self, schema: Json, pointer: str, followed: Sequence[str]) -> Texts | None:
        if schema is True:
            return ANY
        if schema is False:
            return None
        if not isinstance(schema, dict):
            raise UnsupportedTextError("expected a schema", pointer)
        if not _type_has_strings(schema.get("type")):
            return None
        found = [*_listed(schema), *self._parts(schema, pointer, followed)]
        if any(texts is None for texts in found):
            return None
        for name in _UNTOLD:
            if name in schema:
                raise UnsupportedTextError(f"{name} is not supported", f"{pointer}/{name}")
        allowed = _all_of([texts for texts in found if texts is not None] + _own(schema, pointer))
        if allowed.term is not None and len(allowed.term) > LONGEST_TERM:
            raise UnsupportedTextError("it says too much of strings", pointer)
        return allowed

    def _parts(self, schema: Mapping[str, Json], pointer: str, followed: Sequence[str]) -> list[Texts | None]:
        """What the schemas in it allow, all of which a text has to be of."""
        found: list[Texts | None] = []
        if "$ref" in schema:
            found.append(self._referred(schema["$ref"], f"{pointer}/$ref", followed))
        for name in ("anyOf", "oneOf", "allOf"):
            if name in schema:
                each = self._each(schema[name], f"{pointer}/{name}", followed)
                if name == "allOf":
                    found += each
                else:
                    kept = [texts for texts in each if texts is not None]
                    found.append(_one_of(kept, f"{pointer}/{name}") if name == "oneOf" else _any_of(kept))
        return found

    def _each(self, schemas: Json, pointer: str, followed: Sequence[str]) -> list[Texts | None]:
        if not isinstance(schemas, list):
            raise UnsupportedTextError("expected a list of schemas", pointer)
        return [self.texts(one, f"{pointer}/{number}", followed) for number, one in enumerate(schemas)]

    def _referred(self, reference: Json, pointer: str, followed: Sequence[str]) -> Texts | None:
        if not isinstance(reference, str) or reference in followed:
            raise UnsupportedTextError("a reference that leads nowhere but to itself", pointer)
        if reference in self._known:
            return self._known[reference]
        place: Json = dict(self._definitions)
        steps = reference.removeprefix("#/").split("/")
        for step in steps if reference.startswith("#/") else [""]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(place, dict) or name not in place:
                raise UnsupportedTextError(f"{reference} is no definition of this tool's", pointer)
            place = place[name]
        self._known[reference] = self.texts(place, pointer, [*followed, reference])
        return self._known[reference]


def _type_has_strings(kind: Json) -> bool:
    return kind is None or kind == "string" or (isinstance(kind, list) and "string" in kind)


def _listed(schema: Mapping[str, Json]) -> list[Texts | None]:
    found: list[Texts | None] = []
    for values in ([schema["const"]] if "const" in schema else None, schema.get("enum")):
        if isinstance(values, list):
            found.append(_texts_of([value for value in values if isinstance(value, str)]))
    return found


def _texts_of(strings: Sequence[str]) -> Texts | None:
    kept = list(dict.fromkeys(strings))
    return Texts(f"({' | '.join(map(text_term, kept))})", frozenset(kept)) if kept else None


def _own(schema: Mapping[str, Json], pointer: str) -> list[Texts]:
    """What its own keywords ask of a string."""
    found = []
    if any(name in schema for name in _BOUNDS):
        found.append(Texts(expression_term(_length(schema, pointer))))
    if isinstance(pattern := schema.get("pattern"), str):
        try:
            found.append(Texts(expression_term(text_pattern(pattern))))
        except ValueError as error:
            raise UnsupportedTextError(f"a pattern with {error} is not supported", f"{pointer}/pattern") from error
    elif "pattern" in schema:
        raise UnsupportedTextError("expected a string", f"{pointer}/pattern")
    if "format" in schema:
        name = schema["format"]
        if not isinstance(name, str) or name not in TEXT_FORMATS:
            raise UnsupportedTextError(
                f"expected one of the formats {', '.join(TEXT_FORMATS)}, got {str(name)[:40]!r}", f"{pointer}/format"
            )
        found.append(Texts(expression_term(TEXT_FORMATS[name])))
    return found


def _length(schema: Mapping[str, Json], pointer: str) -> str:
    least, most = (_bound(schema, name, pointer) for name in _BOUNDS)
    if least is not None and most is not None and most < least:
        raise UnsupportedTextError(f"maxLength {most} is below minLength {least}", f"{pointer}/maxLength")
    return rf"(?:.|\n){{{least or 0},{'' if most is None else most}}}"


def _bound(schema: Mapping[str, Json], name: str, pointer: str) -> int | None:
    value = schema.get(name)
    if name not in schema:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
        raise UnsupportedTextError("expected a whole number, not below 0", f"{pointer}/{name}")
    return int(value)


def _all_of(found: Sequence[Texts]) -> Texts:
    narrow = list(dict.fromkeys(texts for texts in found if texts.term is not None))
    if len(narrow) < 2:
        return narrow[0] if narrow else ANY
    return Texts(f"({' & '.join(f'({texts.term})' for texts in narrow)})")


def _any_of(found: Sequence[Texts]) -> Texts | None:
    if not found or any(texts.term is None for texts in found):
        return ANY if found else None
    listed = [texts.listed for texts in found]
    if all(one is not None for one in listed):
        return _texts_of([text for one in listed for text in sorted(one or ())])
    terms = dict.fromkeys(texts.term for texts in found)
    return found[0] if len(terms) == 1 else Texts(f"({' | '.join(f'({term})' for term in terms)})")


def _one_of(found: Sequence[Texts], pointer: str) -> Texts | None:
    """Several alternatives only where nothing is of two."""
    seen = set[str]()
    for texts in found if len(found) > 1 else ():
        if texts.listed is None or seen & texts.listed:
            raise UnsupportedTextError("alternatives that may both be true of one string are not supported", pointer)
        seen |= texts.listed
    return _any_of(found)
