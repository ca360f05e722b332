"""The screen in a real terminal with a fake agent behind it: `python terminal_app.py`, for the tests with tmux."""

import sys
from pathlib import Path

from agent.tui.sessions import ANSWER
from fakes.screen_agent import FakeCockpit, Stage
from whitedwarf.agent.approval import Consent, Question
from whitedwarf.agent.events import Drawn, Reading
from whitedwarf.agent.tool import Effect
from whitedwarf.agent.tui.app import run_screen
from whitedwarf.agent.tui.cockpit import ScreenSettings
from whitedwarf.conversation.events import ReasoningDelta, TextDelta


def turn(stage: Stage) -> None:
    """What the words ask for."""
    if "hold" in stage.text:
        stage.tell(TextDelta("holding on"))
        stage.hold()
    if "ask" in stage.text:
        consent = stage.ask(Question("bash", Effect.RUN, "$ make", "make"))
        stage.tell(TextDelta("allowed" if consent is not Consent.NO else "refused"))
        return
    if "crash" in stage.text:
        raise RuntimeError("the model is gone")
    stage.tell(Reading(100, 100, 0, 0.2), ReasoningDelta("hm\n"), Drawn(2, 0.1))
    for number, word in enumerate(ANSWER.split(" ")):
        stage.tell(TextDelta(word + " "), Drawn(number, 0.1 + number / 50))
        stage.wait(0.002)
    stage.tell(TextDelta(f"\n\nyou said: {stage.text}"))


def main() -> int:
    """Run it; `heard` goes to the file that was named."""
    cockpit = FakeCockpit((turn,))
    status = run_screen(cockpit, ScreenSettings(model="fake", workspace=str(Path.cwd())))
    assert cockpit.agent is not None
    Path(sys.argv[1]).write_text("\n---\n".join(cockpit.agent.heard), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
