"""Where in a schema the part is that cannot be enforced: the deepest one that cannot be by itself either.

Promises: a JSON pointer; the root's where no smaller part is to blame, or finding it would take too long.
"""

from collections.abc import Callable, Iterator

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.bounded_schema import LISTED_SCHEMAS, NAMED_SCHEMAS, ONE_SCHEMA

MOST_TRIES = 200
_DEFINITIONS = ("$defs", "$def", "definitions")


def fault_pointer(schema: Json, is_supported: Callable[[Json], bool]) -> str:
    """Such as `#/properties/name/items`; `is_supported` is asked of parts, with the root's definitions in them."""
    shared = {name: schema[name] for name in _DEFINITIONS if name in schema} if isinstance(schema, dict) else {}
    pointer, part, tries = "#", schema, 0
    while True:
        for step, child in children(part):
            tries += 1
            if tries > MOST_TRIES:
                return pointer
            if not is_supported({**shared, **child} if isinstance(child, dict) else child):
                pointer, part = pointer + step, child
                break
        else:
            return pointer


def children(schema: Json) -> Iterator[tuple[str, Json]]:
    """The parts of a schema that are schemas, and the way to each."""
    if not isinstance(schema, dict):
        return
    for name in ONE_SCHEMA:
        if isinstance(schema.get(name), dict):
            yield f"/{name}", schema[name]
    for name in LISTED_SCHEMAS:
        listed = schema.get(name)
        for number, child in enumerate(listed if isinstance(listed, list) else ()):
            yield f"/{name}/{number}", child
    for name in NAMED_SCHEMAS:
        named = schema.get(name)
        for key, child in named.items() if isinstance(named, dict) else ():
            yield f"/{name}{pointer_step(key)}", child


def lost_reference(schema: Json) -> tuple[str, str] | None:
    """A `$ref` that leads elsewhere than to the root's definitions, and the pointer to it: parts of a tool's schema are
    followed one by one, so it would lead into the wrong one."""
    waiting = [(schema, "#")]
    while waiting:
        part, pointer = waiting.pop()
        reference = part.get("$ref") if isinstance(part, dict) else None
        if reference is not None and not str(reference).startswith(tuple(f"#/{name}/" for name in _DEFINITIONS)):
            return str(reference), f"{pointer}/$ref"
        waiting += [(child, pointer + step) for step, child in children(part)]
    return None


def pointer_step(key: str) -> str:
    """The way to a member, as JSON pointers have it."""
    return "/" + key.replace("~", "~0").replace("/", "~1")
