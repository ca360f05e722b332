"""From --allow, --ask, --deny and --yes to the policy of a session."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from whitedwarf.agent.approval import USUAL_RULES, Approver, Policy, Rule
from whitedwarf.agent.tool import Effect, Toolbox
from whitedwarf.config import AgentFlags
from whitedwarf.errors import UsageError


def policy_of(flags: AgentFlags, toolbox: Toolbox, approver: Approver) -> Policy:
    """A call's own risk is asked about, whatever the flags say. A rule for an effect is one for each of its tools, so
    that nothing a session remembers goes before it.

    UsageError for a name that is neither a tool nor an effect, or that is given two rules.
    """
    by_effect = dict(USUAL_RULES)
    if flags.yes:
        by_effect = dict.fromkeys(Effect, Rule.AUTO)
    by_tool: dict[str, Rule] = {}
    asked = list(_asked(flags, toolbox))
    for names, rule in asked:
        by_effect |= {Effect(name): rule for name in names if name in list(Effect)}
        by_tool |= {name: rule for name, tool in toolbox.tools.items() if tool.effect in names}
    for names, rule in asked:
        by_tool |= {name: rule for name in names if name in toolbox.tools}
    return Policy(approver, by_effect, by_tool)


def _asked(flags: AgentFlags, toolbox: Toolbox) -> Iterator[tuple[list[str], Rule]]:
    """Effects and tools with their rules; a name with * means all tools that fit."""
    seen: dict[str, str] = {}
    for flag, given, rule in (
        ("--allow", flags.allow, Rule.AUTO),
        ("--ask", flags.ask, Rule.ASK),
        ("--deny", flags.deny, Rule.DENY),
    ):
        for name in given:
            if seen.setdefault(name, flag) != flag:
                raise UsageError(f"{seen[name]} {name} and {flag} {name} contradict each other: give one")
            yield _names(flag, name, tuple(toolbox.tools)), rule


def _names(flag: str, name: str, tools: Sequence[str]) -> list[str]:
    if name in list(Effect):
        return [name]
    found = [tool for tool in tools if fnmatchcase(tool, name)]
    if not found:
        raise UsageError(
            f"{flag} {name}: expected an effect ({', '.join(Effect)}) or one of the tools: {', '.join(tools)}"
        )
    return found
