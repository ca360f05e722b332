"""Who is asked, and what is remembered."""

from dataclasses import dataclass, field

import pytest

from whitedwarf.agent.approval import Consent, NobodyToAsk, Policy, Question, Rule
from whitedwarf.agent.tool import Arguments, Effect, Outcome, Running, Tool, Toolbox, ToolError
from whitedwarf.conversation.tools import ToolDefinition


@dataclass
class Answers:
    """Somebody who says these things, one after another."""

    consents: list[Consent]
    asked: list[Question] = field(default_factory=list)

    def ask(self, question):
        self.asked.append(question)
        return self.consents.pop(0)


class Shell(Tool):
    definition = ToolDefinition("shell")
    effect = Effect.RUN
    is_closed = False

    def summary(self, arguments):
        return "$ " + arguments.text("command", "")

    def detail(self, arguments):
        return "all of " + arguments.text("command", "")

    def risk(self, arguments):
        return "deletes" if "rm" in arguments.text("command", "") else ""

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        return Outcome("")

    def close(self):
        self.is_closed = True


def call(command):
    return Arguments({"command": command})


def test_the_question_shows_summary_detail_and_risk():
    answers = Answers([Consent.ONCE])
    Policy(answers).check_call(Shell(), call("rm x"))
    assert answers.asked == [Question("shell", Effect.RUN, "$ rm x", "all of rm x", "deletes")]


def test_once_is_asked_again_and_session_is_not():
    answers = Answers([Consent.ONCE, Consent.SESSION])
    policy = Policy(answers)
    for _ in range(4):
        policy.check_call(Shell(), call("ls"))
    assert len(answers.asked) == 2


def test_a_risk_is_asked_about_although_the_tool_is_allowed_until_it_is_accepted_itself():
    answers = Answers([Consent.ONCE, Consent.SESSION])
    policy = Policy(answers, by_tool={"shell": Rule.AUTO})
    for command in ("ls", "rm a", "ls", "rm a", "rm b", "ls"):
        policy.check_call(Shell(), call(command))
    assert [question.summary for question in answers.asked] == ["$ rm a", "$ rm a"]


def test_a_risk_does_not_soften_a_denial():
    policy = Policy(Answers([]), by_tool={"shell": Rule.DENY})
    with pytest.raises(ToolError, match="does not allow shell"):
        policy.check_call(Shell(), call("rm a"))


def test_nobody_to_ask_is_a_no_also_to_a_risk():
    with pytest.raises(ToolError, match="does not allow"):
        Policy(NobodyToAsk()).check_call(Shell(), call("ls"))
    with pytest.raises(ToolError, match="does not allow"):
        Policy(NobodyToAsk(), by_tool={"shell": Rule.AUTO}).check_call(Shell(), call("rm"))


def test_another_session_begins_without_what_was_allowed_and_accepted():
    answers = Answers([Consent.SESSION, Consent.NO, Consent.NO])
    policy = Policy(answers, by_tool={"other": Rule.ASK})
    policy.check_call(Shell(), call("rm x"))
    assert policy.remembered == {"shell": Rule.AUTO}
    policy.begin()
    assert policy.by_tool == {"other": Rule.ASK}
    with pytest.raises(ToolError):
        policy.check_call(Shell(), call("ls"))
    policy.begin([Shell()], {"shell": Rule.AUTO, "other": Rule.AUTO})
    assert policy.by_tool == {"shell": Rule.AUTO, "other": Rule.ASK}
    policy.check_call(Shell(), call("ls"))
    with pytest.raises(ToolError):
        policy.check_call(Shell(), call("rm x"))


def test_a_toolbox_closes_its_tools():
    shell = Shell()
    Toolbox.of(shell).close()
    assert shell.is_closed


@pytest.mark.parametrize(
    ("summary", "detail", "is_in"),
    [
        ("$ rm -r x", "rm -r x\nin /tmp", True),
        ("$ echo a b…", "echo a  b c d", True),
        ("Editing a.py", "--- a.py\n+++ a.py", False),
        ("$ ls", "", False),
        ("", "anything", False),
    ],
)
def test_a_summary_that_the_detail_begins_with_need_not_be_shown(summary: str, detail: str, is_in: bool) -> None:
    assert Question("bash", Effect.RUN, summary, detail).is_summary_in_detail is is_in
