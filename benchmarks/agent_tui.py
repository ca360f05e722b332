"""Whether the agent's screen keeps up: how long a key takes to be seen while a fake agent tells 1000 events a second.

    PYTHONPATH=src:tests python benchmarks/agent_tui.py [--keys 200] [--events 1000] [--columns 120] [--rows 40]

Keys are typed at random moments (seeded) into the real app in textual's test harness, which draws to nowhere; a key
counts as seen when the editor's new line has been composed for the screen. Beside the time on the clock stands the
processor time that the whole program took meanwhile, which is what a busy machine does not change, and how much longer
than its processor time a plain loop took (`slowdown`: 1 on an idle machine). Prints a line for people, and one JSON
document as the last line of stdout.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from itertools import cycle, pairwise

from textual.widgets import TextArea

from agent.tui.screen import SETTINGS
from fakes.screen_agent import FakeCockpit, InterruptedSceneError, Stage
from whitedwarf.agent.events import Drawn, Event, ParameterText, ToolCallStarted, ToolOutput
from whitedwarf.agent.tui.app import AgentApp
from whitedwarf.conversation.events import ReasoningDelta, TextDelta

WARM_UP_S = 2.0
_WORDS = ["the", "**quick**", "brown", "`fox`", "jumps", "over\nlazy", "dogs", "and", "|", "tables\n\n-", "in", "lists"]
_CODE = ["def", "f(x):\n", "", "", "", "return", "[y", "*", "2", "for", "y", "in", "x]", "", "#", "twice\n\n"]


def events() -> "cycle[list[Event]]":
    """Phases of a busy turn: a thought, an answer, a written file, a program's output; each of some seconds."""
    thought = [event for word in _WORDS * 20 for event in (ReasoningDelta(word + " "), Drawn(1, 0.1))]
    answer = [event for word in _WORDS * 20 for event in (TextDelta(word + " "), Drawn(1, 0.1))]
    code = [TextDelta("\n\n```python\n"), *(TextDelta(word + " ") for word in _CODE * 60), TextDelta("\n```\n\n")]
    call = [ToolCallStarted(0, "write"), ParameterText(0, "path", "a.py", True)]
    body: list[Event] = [ParameterText(0, "content", word + " ") for word in _CODE * 60]
    printed: list[Event] = [ToolOutput(0, f"line {number} of a long program's output\n") for number in range(500)]
    return cycle([[*thought, *answer, *code, *call, *body, *printed]])


def flood(per_second: int):
    """A scene that tells so many events a second until it is interrupted."""

    def scene(stage: Stage) -> None:
        began_s, told = time.monotonic(), 0
        for batch in events():
            for event in batch:
                stage.tell(event)
                told += 1
                ahead_s = told / per_second - (time.monotonic() - began_s)
                if ahead_s > 0.002 and stage.stop.wait(ahead_s):
                    raise InterruptedSceneError
                if ahead_s < -0.1:  # the machine was busy with something else: what was missed is not told at once
                    began_s -= ahead_s

    return scene


def slowdown() -> float:
    """How much longer than its processor time a plain loop takes, the median of 20."""
    found = []
    for _ in range(20):
        time.sleep(0.02)
        began_s, work_s = time.perf_counter(), time.thread_time()
        while time.thread_time() - work_s < 0.01:
            pass
        found.append((time.perf_counter() - began_s) / 0.01)
    return statistics.median(found)


async def latencies_ms(
    keys: int, per_second: int, size: tuple[int, int]
) -> tuple[list[float], list[float], list[float]]:
    """Of each key, by the clock and in processor time; and the times between redraws of the story."""
    cockpit = FakeCockpit((flood(per_second),))
    app = AgentApp(SETTINGS)
    seat = cockpit(app.listen, app)
    app.take_seat(seat)
    dice = random.Random(1)
    seen, redraws_s = asyncio.Event(), []
    render = TextArea.render_line
    redraw = AgentApp._fetch

    def noted_render(area: TextArea, y: int) -> object:
        seen.set()
        return render(area, y)

    def noted_redraw(app: AgentApp) -> None:
        redraws_s.append(time.monotonic())
        redraw(app)

    TextArea.render_line = noted_render  # type: ignore[method-assign,assignment]
    AgentApp._fetch = noted_redraw  # type: ignore[method-assign]
    found: list[tuple[float, float]] = []
    try:
        async with app.run_test(size=size) as pilot:
            seat.agent.submit("begin")
            await pilot.pause(WARM_UP_S)
            app.query_one(TextArea).cursor_blink = False
            for _ in range(keys):
                await asyncio.sleep(dice.uniform(0.02, 0.12))
                found.append(await _key_ms(app, seen, dice.choice("abcdefgh")))
                if len(found) % 50 == 0:
                    app.query_one(TextArea).text = ""
    finally:
        TextArea.render_line, AgentApp._fetch = render, redraw  # type: ignore[method-assign]
        app.refuse_questions()
        seat.agent.close()
    return (
        [wall for wall, _ in found],
        [cpu for _, cpu in found],
        [1000 * (after - before) for before, after in pairwise(redraws_s)],
    )


async def _key_ms(app: AgentApp, seen: asyncio.Event, key: str) -> tuple[float, float]:
    from textual import events as textual_events

    seen.clear()
    began_s, work_s = time.perf_counter(), time.process_time()
    app.post_message(textual_events.Key(key, key))
    async with asyncio.timeout(10):
        await seen.wait()
    return 1000 * (time.perf_counter() - began_s), 1000 * (time.process_time() - work_s)


def main() -> None:
    """Measure, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--events", type=int, default=1000, help="a second")
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--rows", type=int, default=40)
    flags = parser.parse_args()
    slow = slowdown()
    keys_ms, work_ms, redraws_ms = asyncio.run(latencies_ms(flags.keys, flags.events, (flags.columns, flags.rows)))
    result = {
        "benchmark": "agent_tui",
        "keys": len(keys_ms),
        "events_per_second": flags.events,
        "columns": flags.columns,
        "rows": flags.rows,
        "key_ms": _spread(keys_ms),
        "key_processor_ms": _spread(work_ms),
        "slowdown": _round((slow + slowdown()) / 2),
        "redraw_interval_ms": {"median": _round(statistics.median(redraws_ms)), "least": _round(min(redraws_ms))},
    }
    for name in ("key_ms", "key_processor_ms"):
        print(f"{name}: median {result[name]['median']}, 95 of 100 within {result[name]['p95']}")
    print(json.dumps(result))
    sys.stdout.flush()


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": _round(statistics.median(values)), "p95": _p95(values), "max": _round(max(values))}


def _p95(values: list[float]) -> float:
    return _round(statistics.quantiles(values, n=20)[-1])


def _round(value: float) -> float:
    return round(value, 1)


if __name__ == "__main__":
    main()
