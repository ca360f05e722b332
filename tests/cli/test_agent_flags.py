"""The agent's flags: which mode they choose, which rules they give, what contradicts."""

import os
import sys
from dataclasses import replace

import pytest

from whitedwarf.agent.approval import NobodyToAsk, Rule
from whitedwarf.agent.tool import Arguments, Effect, Outcome, Running, Tool, Toolbox, ToolError
from whitedwarf.cli.agent_modes import Mode, check_for_server, chosen_mode
from whitedwarf.cli.agent_rules import policy_of
from whitedwarf.config import AgentFlags, AgentModelSettings, SteeringSettings
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.errors import UsageError


class Fake(Tool):
    def __init__(self, name: str, effect: Effect) -> None:
        self.definition = ToolDefinition(name)
        self.effect = effect

    def summary(self, arguments: Arguments) -> str:
        return self.name

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        return Outcome("")


TOOLBOX = Toolbox.of(
    Fake("read", Effect.READ),
    Fake("write", Effect.WRITE),
    Fake("bash", Effect.RUN),
    Fake("fetch", Effect.NETWORK),
    Fake("mcp__a__get", Effect.NETWORK),
    Fake("mcp__a__put", Effect.NETWORK),
)


def rules(**flags: object) -> dict[str, Rule]:
    policy = policy_of(AgentFlags(**flags), TOOLBOX, NobodyToAsk())  # type: ignore[arg-type]
    return {name: policy.rule(tool) for name, tool in TOOLBOX.tools.items()}


def test_usually_reading_is_free_and_all_else_is_asked() -> None:
    assert rules() == {name: Rule.AUTO if name == "read" else Rule.ASK for name in TOOLBOX.tools}


def test_tools_effects_and_patterns_have_rules_of_which_a_tools_own_wins() -> None:
    found = rules(allow=("bash", "network"), deny=("mcp__a__p*", "fetch"), ask=("read",))
    assert found == {
        "read": Rule.ASK,
        "write": Rule.ASK,
        "bash": Rule.AUTO,
        "fetch": Rule.DENY,
        "mcp__a__get": Rule.AUTO,
        "mcp__a__put": Rule.DENY,
    }


def test_a_rule_for_an_effect_goes_before_what_a_session_remembers() -> None:
    tools, remembered = TOOLBOX.tools.values(), dict.fromkeys(TOOLBOX.tools, Rule.AUTO)
    policy = policy_of(AgentFlags(deny=("network",), ask=("run",)), TOOLBOX, NobodyToAsk())
    policy.begin(tools, remembered)
    found = {name: policy.rule(tool) for name, tool in TOOLBOX.tools.items()}
    assert (found["bash"], found["write"], found["fetch"]) == (Rule.ASK, Rule.AUTO, Rule.DENY)


def test_yes_asks_nothing_but_what_is_denied_stays_denied() -> None:
    found = rules(yes=True, deny=("bash",))
    assert found["bash"] is Rule.DENY
    assert set(found.values()) == {Rule.AUTO, Rule.DENY}
    policy = policy_of(AgentFlags(yes=True), TOOLBOX, NobodyToAsk())
    policy.check(TOOLBOX.tools["fetch"], "")
    with pytest.raises(ToolError):
        policy.check(TOOLBOX.tools["fetch"], "", risk="it is a host of your own network")
    with pytest.raises(ToolError):
        policy_of(AgentFlags(), TOOLBOX, NobodyToAsk()).check(TOOLBOX.tools["bash"], "")


def test_unknown_names_and_contradictions_are_told() -> None:
    with pytest.raises(UsageError, match=r"--allow bsh: expected an effect \(read, write.*bash"):
        rules(allow=("bsh",))
    with pytest.raises(UsageError, match="--allow bash and --deny bash contradict"):
        rules(allow=("bash",), deny=("bash",))


class Ends:
    """Standard streams with or without a terminal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, is_terminal: bool, term: str = "xterm") -> None:
        for name in ("stdin", "stdout", "stderr"):
            monkeypatch.setattr(getattr(sys, name), "isatty", lambda: is_terminal, raising=False)
        monkeypatch.setenv("TERM", term)
        monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 24)))


@pytest.mark.parametrize(
    ("flags", "text", "is_terminal", "term", "mode"),
    [
        (AgentFlags(), None, True, "xterm", Mode.SCREEN),
        (AgentFlags(), "Hi", True, "xterm", Mode.SCREEN),
        (AgentFlags(), None, True, "dumb", Mode.PLAIN),
        (AgentFlags(), None, False, "xterm", Mode.PLAIN),
        (AgentFlags(plain=True), None, True, "xterm", Mode.PLAIN),
        (AgentFlags(print=True), "Hi", True, "xterm", Mode.PRINT),
        (AgentFlags(print=True), None, False, "xterm", Mode.PRINT),
        (AgentFlags(non_interactive=True), None, False, "xterm", Mode.LINES),
        (AgentFlags(non_interactive=True), "Hi", False, "xterm", Mode.ONE_TURN),
    ],
)
def test_the_mode_follows_flags_and_terminal(
    flags: AgentFlags, text: str | None, is_terminal: bool, term: str, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ends(monkeypatch, is_terminal, term)
    assert chosen_mode(flags, text) is mode


def test_what_contradicts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Ends(monkeypatch, True)
    with pytest.raises(UsageError, match="--print and --plain exclude"):
        chosen_mode(AgentFlags(print=True, plain=True), "Hi")
    with pytest.raises(UsageError, match="--session and --continue"):
        chosen_mode(AgentFlags(session="3f", continue_=True), "Hi")
    with pytest.raises(UsageError, match="needs a prompt"):
        chosen_mode(AgentFlags(print=True), None)
    local, plain = AgentModelSettings(), SteeringSettings()
    there = AgentFlags(url="http://127.0.0.1:8000")
    check_for_server(there, replace(local, context=4096), plain)
    for flags, model in (
        (there, replace(local, model="x.gguf")),
        (there, replace(local, power=50)),
        (AgentFlags(model_name="x"), local),
        (AgentFlags(api_key_env="x"), local),
        (AgentFlags(url="http://127.0.0.1:8000", session="3f"), local),
    ):
        with pytest.raises(UsageError):
            check_for_server(flags, model, plain)
