"""An agent whose process is killed: run as a program, it says what happens until somebody ends it.

`python -m agent.scenarios.killed FOLDER VERSION PLOT`: the plots are below. A line of stdout is an event: its kind, and
the name of the saved session.
"""

import sys
from pathlib import Path

from agent.scenarios.play import THINKING, Play
from agent.scenarios.replies import THOUGHT_ENDS, Reply, begun, call, calls, says, slowly
from whitedwarf.agent.events import Compacting, Event
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model

LONG = slowly("one two three four five six seven eight nine ten " * 50)
FIRST = (says("Hm.", THOUGHT_ENDS, "The first is done."),)
PLOTS: dict[str, tuple[Reply, ...]] = {
    "reading": (says("Never said.", prefill_s=600),),
    "thinking": (says(LONG, delay_ms=20),),
    "speaking": (says("Hm.", THOUGHT_ENDS, LONG, delay_ms=20),),
    "calling": (says("Hm.", THOUGHT_ENDS, begun("write", "content", "x", path="a.txt"), LONG, delay_ms=20),),
    "running": (says("Hm.", THOUGHT_ENDS, *calls(call("bash", command="echo ran >> ran; sleep 600")).parts),),
    "between": (
        says("Hm.", THOUGHT_ENDS, *calls(call("read", path="a", raw=True)).parts),
        says(LONG, prefill_s=600),
    ),
    "compacting": (says("Goal: ", LONG, delay_ms=20),),
}


def tell(text: str) -> None:
    print(text, flush=True)


def main(folder: Path, version: ModelVersion, plot: str) -> None:
    with open_gguf(bundled_model()) as gguf:
        tokenizer = Tokenizer.from_metadata(gguf.metadata)
    play = Play(tokenizer, version, folder)
    with play(*FIRST, *PLOTS[plot], files={"a": "sesame"}, keeps=True, settings=THINKING) as scene:

        def tells(event: Event) -> None:
            step = f"-{event.step}-{event.done}" if isinstance(event, Compacting) else ""
            tell(f"{type(event).__name__}{step} {scene.session_id}")

        scene.user("The first thing.")
        scene.watch = tells
        if plot == "compacting":
            scene.agent.request(scene.agent.compact)
        else:
            scene.agent.submit("The second thing.")
        scene.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), ModelVersion(sys.argv[2]), sys.argv[3])
