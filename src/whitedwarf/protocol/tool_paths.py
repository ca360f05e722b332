"""Where in a request the schema of each tool stands, as its dialect writes it: what messages about the schema name.

Promises: of two tools of one name the first, which is the one that counts. Tools that it does not know the way to (they
came with an earlier turn, or in a namespace) are left out.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.strict_tool import ToolSchemaError


def tool_paths(body: Json) -> dict[str, str]:
    """Such as `tools[0].function.parameters`, by the tool's name."""
    found: dict[str, str] = {}
    for listing in ("tools", "functions"):
        tools = body.get(listing) if isinstance(body, dict) else None
        for number, tool in enumerate(tools if isinstance(tools, list) else ()):
            if isinstance(tool, dict):
                _note(found, tool, f"{listing}[{number}]")
    return found


def _note(found: dict[str, str], tool: Mapping[str, Json], path: str) -> None:
    function = tool.get("function")
    declared = function if isinstance(function, dict) else tool
    member = "input_schema" if "input_schema" in declared else "parameters"
    name = declared.get("name")
    if isinstance(name, str):
        found.setdefault(name, f"{path}.{'' if declared is tool else 'function.'}{member}")


@contextmanager
def named_by_path(paths: Mapping[str, str]) -> Iterator[None]:
    """In it, what is wrong with a tool's schema is told with the way to it."""
    try:
        yield
    except ToolSchemaError as error:
        raise ToolSchemaError(error.tool, error.problem, error.pointer, paths.get(error.tool)) from error
