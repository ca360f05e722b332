"""Whether a call may run: by the effect of its tool, asked where the policy says so, remembered for the session.

Knows no screen: `Approver` is how somebody is asked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from whitedwarf.agent.tool import Arguments, Effect, Tool, ToolError


class Rule(StrEnum):
    """What the policy says about a tool."""

    AUTO = "auto"
    ASK = "ask"
    DENY = "deny"


class Consent(StrEnum):
    """What the user says to a question."""

    ONCE = "once"
    SESSION = "session"  # this tool from now on
    NO = "no"


USUAL_RULES: Mapping[Effect, Rule] = {
    Effect.READ: Rule.AUTO,
    Effect.WRITE: Rule.ASK,
    Effect.RUN: Rule.ASK,
    Effect.NETWORK: Rule.ASK,
}


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be allowed; `detail` shows the command, or the change; `risk` says what is unusual about it."""

    tool: str
    effect: Effect
    summary: str
    detail: str = ""
    risk: str = ""

    @property
    def is_summary_in_detail(self) -> bool:
        """Whether the summary of a command is only the beginning of what the detail shows."""
        command = " ".join(self.summary.removeprefix("$ ").rstrip("…").split())
        return bool(command) and " ".join(self.detail.split()).startswith(command)


class Approver(Protocol):
    """Asks the user; called on the agent's thread, which waits. Must end when the turn is interrupted."""

    def ask(self, question: Question) -> Consent: ...


class NobodyToAsk:
    """Where no one looks on: what would have to be asked is refused."""

    def ask(self, question: Question) -> Consent:
        """Always no."""
        return Consent.NO


@dataclass(slots=True)
class Policy:
    """The rules of one session: by effect, and by tool where one is named. Those it is made with are those of every
    session of the process: what is said in one is over with it."""

    approver: Approver
    by_effect: Mapping[Effect, Rule] = field(default_factory=lambda: dict(USUAL_RULES))
    by_tool: dict[str, Rule] = field(default_factory=dict)
    accepted_risks: set[tuple[str, str]] = field(default_factory=set)  # for the session: (tool, risk)
    _given: Mapping[str, Rule] = field(init=False)

    def __post_init__(self) -> None:
        self._given = dict(self.by_tool)

    @property
    def remembered(self) -> Mapping[str, Rule]:
        """What the user has said in this session, by tool."""
        return {tool: rule for tool, rule in self.by_tool.items() if self._given.get(tool) is not rule}

    def begin(self, tools: Iterable[Tool] = (), remembered: Mapping[str, Rule] | None = None) -> None:
        """Another session, of these tools, in which the user has said this earlier. It answers what would be asked now
        and nothing else: a rule that was given for the tool itself still holds, and what is forbidden is."""
        self.accepted_risks.clear()
        self.by_tool = dict(self._given)
        asked = {tool.name for tool in tools if self.by_effect[tool.effect] is Rule.ASK}
        self.by_tool = {tool: rule for tool, rule in (remembered or {}).items() if tool in asked} | self.by_tool

    def rule(self, tool: Tool) -> Rule:
        """The tool's own rule, else that of its effect."""
        return self.by_tool.get(tool.name, self.by_effect[tool.effect])

    def check_call(self, tool: Tool, arguments: Arguments) -> None:
        """`check` with what the tool says about the call itself. What the loop asks before every call."""
        risk = tool.risk(arguments)
        is_asked = self._rule(tool, risk) is Rule.ASK
        self.check(tool, tool.summary(arguments), tool.detail(arguments) if is_asked else "", risk)

    def check(self, tool: Tool, summary: str, detail: str = "", risk: str = "") -> None:
        """Return when the call may run; ToolError, in words for the model, when it may not."""
        rule = self._rule(tool, risk)
        if rule is Rule.ASK:
            consent = self.approver.ask(Question(tool.name, tool.effect, summary, detail, risk))
            if consent is Consent.SESSION:
                self.by_tool[tool.name] = Rule.AUTO
                self.accepted_risks.add((tool.name, risk))
            rule = Rule.DENY if consent is Consent.NO else Rule.AUTO
        if rule is Rule.DENY:
            raise ToolError(f"the user does not allow {tool.name} here; go on without it, or ask the user")

    def _rule(self, tool: Tool, risk: str) -> Rule:
        """A risk that was not accepted yet is asked about, whatever is allowed."""
        rule = self.rule(tool)
        is_new = bool(risk) and (tool.name, risk) not in self.accepted_risks
        return Rule.ASK if is_new and rule is Rule.AUTO else rule
