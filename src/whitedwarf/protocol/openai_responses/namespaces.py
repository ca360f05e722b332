"""The names that members of namespaces have for the model, which knows no namespaces (spec/recipe.md 4).

Promises: no member's name is that of a plain tool or of another member, in time linear in the tools; names once given
stay when tools are found later; what was given is found again by namespace and local name.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.openai_responses.declarations import (
    CustomTool,
    FunctionTool,
    NamespaceTool,
    SearchTool,
    Tool,
)
from whitedwarf.protocol.openai_responses.items import TOOL_SEARCH

_SEPARATORS = {ModelVersion.V4: "__", ModelVersion.V41: "::"}

Invocable: TypeAlias = FunctionTool | CustomTool | SearchTool


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool under the name that it has for the model."""

    name: str
    tool: Invocable
    namespace: NamespaceTool | None = None


class NamespaceNames:
    """Gives tools their names, in the order of the request."""

    def __init__(self, version: ModelVersion, reserved: Iterable[str]) -> None:
        self._separator = _SEPARATORS[version]
        self._taken = set(reserved)
        self._numbers: dict[str, int] = {}  # the last that was added to a taken name
        self._first: dict[tuple[str, str], str] = {}
        self._origins: dict[str, tuple[str, str]] = {}

    def offered(self, tools: Iterable[Tool], *, are_known: bool = False) -> tuple[OfferedTool, ...]:
        """These tools, members of namespaces one by one, without those that no client runs.

        `are_known`: a member of a namespace that has a name keeps it, for it is told again and not another one.
        """
        return tuple(named for tool in tools for named in self._named(tool, are_known))

    def in_history(self, namespace: str | None, name: str) -> str:
        """The name of a tool that was called: the first of that origin, or what an undeclared one would have."""
        if namespace is None:
            return name
        return self._first.get((namespace, name)) or self._joined(namespace, name)

    def origins(self) -> Mapping[str, tuple[str, str]]:
        """For each name given so far, namespace and local name."""
        return dict(self._origins)

    def _named(self, tool: Tool, are_known: bool) -> Iterator[OfferedTool]:
        match tool:
            case FunctionTool() | CustomTool():
                yield OfferedTool(tool.name, tool)
            case SearchTool() if tool.is_run_by_client:
                yield OfferedTool(TOOL_SEARCH, tool)
            case NamespaceTool():
                for member in tool.tools:
                    known = self._first.get((tool.name, member.name)) if are_known else None
                    yield OfferedTool(known or self._assign(tool.name, member.name), member, tool)

    def _assign(self, namespace: str, local: str) -> str:
        name = self._free(self._joined(namespace, local))
        self._taken.add(name)
        self._first.setdefault((namespace, local), name)
        self._origins[name] = (namespace, local)
        return name

    def _free(self, wanted: str) -> str:
        name, number = wanted, self._numbers.get(wanted, 0)
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._numbers[wanted] = number
        return name

    def _joined(self, namespace: str, local: str) -> str:
        """An underscore at the seam is separation enough for V4."""
        is_apart = self._separator == "__" and (namespace.endswith("_") or local.startswith("_"))
        return f"{namespace}{'' if is_apart else self._separator}{local}"


def plain_names(tools: Iterable[Tool]) -> frozenset[str]:
    """The names of tools in no namespace."""
    return frozenset(tool.name for tool in tools if isinstance(tool, FunctionTool | CustomTool))
