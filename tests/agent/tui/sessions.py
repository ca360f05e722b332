"""Scripted sessions for pictures: each stops at the moment that is to be seen."""

from collections.abc import Mapping

from fakes.screen_agent import Scene, Stage
from whitedwarf.agent.approval import Question
from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Compacting,
    Drawn,
    Notice,
    ParameterText,
    Reading,
    SessionChanged,
    ToolBegan,
    ToolCallStarted,
    ToolEnded,
    ToolOutput,
)
from whitedwarf.agent.tool import Effect
from whitedwarf.conversation.events import ReasoningDelta, TextDelta, ToolCallFinished

PROMPT = "Add a --verbose flag to the parser, and run the tests."
THOUGHT = """The parser lives in src/app/options.py. I should look at it before I change anything; the tests probably \
compare the help text, too.
First read the file, then add the flag with a default of False, so that callers need not change.
"""
ANSWER = """## Done

The flag is there, and the **12 tests** pass. What changed:

1. `options.py` knows `--verbose`, with `False` as its default
2. the help text has a line for it:

```python
def parser() -> ArgumentParser:
    made = ArgumentParser(prog="app")
    made.add_argument("--verbose", action="store_true", help="say more")
    return made
```

| case | before | after |
|---|---|---|
| `app` | quiet | quiet |
| `app --verbose` | error 2 | says more |

> Names in other scripts, such as 日本語 and 🙂, are kept as they are.
"""
DIFF = """--- a/src/app/options.py
+++ b/src/app/options.py
@@ -10,3 +10,4 @@ def parser() -> ArgumentParser:
     made = ArgumentParser(prog="app")
-    made.add_argument("file")
+    made.add_argument("file", help="what to read")
+    made.add_argument("--verbose", action="store_true", help="say more")
     return made
"""
FILE = "".join(f"{number} line of the file\n" for number in range(1, 43))


def _begin(stage: Stage) -> None:
    stage.tell(SessionChanged("", "Add a --verbose flag", 2_100))


def idle(stage: Stage) -> None:
    """A turn that is over: a thought, a tool, an answer."""
    _begin(stage)
    stage.tell(Reading(1_800, 1_800, 2_100, 1.6))
    _think(stage)
    _read_file(stage)
    stage.tell(Reading(520, 520, 4_100, 0.5), TextDelta(ANSWER), Drawn(214, 9.3))
    stage.used_tokens = 4_900
    stage.tell(AnswerEnded(AnswerEnd.DONE, 214, 4_900))


def reading(stage: Stage) -> None:
    """A long prompt is read."""
    _begin(stage)
    stage.tell(Reading(23_552, 61_200, 2_100, 41.3))
    stage.hold()


def thinking(stage: Stage) -> None:
    """The model thinks."""
    _begin(stage)
    stage.tell(Reading(1_800, 1_800, 2_100, 1.6))
    stage.tell(ReasoningDelta(THOUGHT), Drawn(63, 2.7))
    stage.hold()


def tool(stage: Stage) -> None:
    """Tools have run: a file was read and changed, a command prints; another edit is being written."""
    _begin(stage)
    stage.tell(Reading(1_800, 1_800, 2_100, 1.6))
    _think(stage)
    _read_file(stage)
    _edit(stage)
    command = "python -m pytest -q tests/test_options.py"
    stage.tell(Reading(900, 900, 4_100, 0.9), ToolCallStarted(0, "bash"))
    stage.tell(ParameterText(0, "command", command, True), Drawn(40, 1.5, True))
    stage.tell(ToolCallFinished(0, "bash", "{}"), AnswerEnded(AnswerEnd.CALLS, 40, 5_100))
    stage.tell(ToolBegan(0, "bash", f"$ {command}", {"command": command}))
    stage.tell(ToolOutput(0, "............                                    [100%]\n12 passed in 0.31s\n"))
    stage.tell(ToolEnded(0, "bash", "job 1 done, exit_status 0\n12 passed", False, 0.9))
    stage.tell(Reading(120, 120, 5_100, 0.2), ToolCallStarted(0, "edit"))
    stage.tell(ParameterText(0, "path", "README.md", True))
    stage.tell(ParameterText(0, "old", "## Options\n[upto]\n## Licence\n", True))
    stage.tell(ParameterText(0, "new", "## Options\n\n* `--verbose`: say more\n\n## Lic"), Drawn(71, 3.0, True))
    stage.hold()


def approval(stage: Stage) -> None:
    """A command has to be allowed."""
    _begin(stage)
    stage.tell(Reading(1_800, 1_800, 2_100, 1.6))
    _think(stage)
    stage.tell(ToolCallStarted(0, "bash"), ParameterText(0, "command", "rm -r build && make", True))
    stage.tell(ToolCallFinished(0, "bash", "{}"), Drawn(88, 3.9))
    stage.tell(AnswerEnded(AnswerEnd.CALLS, 88, 4_000))
    stage.tell(ToolBegan(0, "bash", "$ rm -r build && make", {"command": "rm -r build && make"}))
    stage.ask(Question("bash", Effect.RUN, "$ rm -r build && make", "rm -r build && make\nin /home/ada/app"))
    stage.hold()


def waiting(stage: Stage) -> None:
    """The user has written more meanwhile."""
    _begin(stage)
    stage.tell(Reading(1_800, 1_800, 2_100, 1.6), TextDelta(ANSWER[:240]), Drawn(58, 2.4))
    for text in ("And say so in the README.", "Then commit it.", "What did the tests print?", "Thanks!"):
        stage.queue(text)
    stage.hold()


def compaction(stage: Stage) -> None:
    """The context is nearly full and is shortened."""
    stage.tell(SessionChanged("", "Add a --verbose flag", 86_400))
    stage.tell(Notice("the context is nearly full: it is shortened"), Compacting("summary", 512, 4_096))
    stage.tell(Compacting("rebuild", 6_144, 12_900))
    stage.hold()


def error(stage: Stage) -> None:
    """A tool fails, a call cannot be read, and then the model fails."""
    _begin(stage)
    stage.used_tokens = 4_040
    stage.tell(Reading(1_800, 1_800, 2_100, 1.6))
    stage.tell(ToolCallStarted(0, "read"), ParameterText(0, "path", "src/app/optoins.py", True), Drawn(24, 1.0, True))
    stage.tell(ToolCallFinished(0, "read", "{}"), AnswerEnded(AnswerEnd.CALLS, 24, 3_950))
    stage.tell(ToolBegan(0, "read", "Reading src/app/optoins.py 1:500", {"path": "src/app/optoins.py"}))
    told = "Tool error: there is no file src/app/optoins.py; list shows what there is"
    stage.tell(ToolEnded(0, "read", told, True, 0.0))
    stage.tell(
        Reading(60, 60, 3_950, 0.1), ToolCallStarted(0, "edit"), ParameterText(0, "path", "src/a\x1b[31m.py", True)
    )
    stage.tell(ParameterText(0, "old", "return made\n", True), Drawn(30, 1.2))
    stage.tell(AnswerEnded(AnswerEnd.REFUSED, 30, 4_040, "old was not found in src/a.py"))
    stage.tell(Notice("the model ran out of memory; the session is whole, say something to go on", is_error=True))


def _think(stage: Stage) -> None:
    stage.tell(ReasoningDelta(THOUGHT), Drawn(63, 2.7))


def _read_file(stage: Stage) -> None:
    stage.tell(ToolCallStarted(0, "read"), ParameterText(0, "path", "src/app/options.py", True))
    stage.tell(ToolCallFinished(0, "read", "{}"), Drawn(88, 3.9, True), AnswerEnded(AnswerEnd.CALLS, 88, 4_000))
    stage.tell(ToolBegan(0, "read", "Reading src/app/options.py 1:500", {"path": "src/app/options.py"}))
    stage.tell(ToolEnded(0, "read", FILE, False, 0.0))


def _edit(stage: Stage) -> None:
    stage.tell(Reading(900, 900, 4_000, 0.9), ToolCallStarted(0, "edit"))
    stage.tell(ParameterText(0, "path", "src/app/options.py", True), ParameterText(0, "old", "x", True))
    stage.tell(ParameterText(0, "new", "y", True), ToolCallFinished(0, "edit", "{}"), Drawn(90, 3.8, True))
    stage.tell(AnswerEnded(AnswerEnd.CALLS, 90, 4_100))
    stage.tell(ToolBegan(0, "edit", "Editing src/app/options.py", {"path": "src/app/options.py"}))
    stage.tell(ToolEnded(0, "edit", "edited src/app/options.py, line 11", False, 0.0, DIFF))


SESSIONS: Mapping[str, Scene] = {
    "idle": idle,
    "reading": reading,
    "thinking": thinking,
    "tool": tool,
    "approval": approval,
    "queue": waiting,
    "compaction": compaction,
    "error": error,
}
