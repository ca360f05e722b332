"""Courses that nobody thought of: random answers, tools, words in between and interruptions; all promises hold."""

import random

import pytest

from agent.scenarios.play import SHORT, THINKING, Play, Scene, saw
from agent.scenarios.replies import (
    THOUGHT_ENDS,
    Invocation,
    Part,
    Reply,
    begun,
    block,
    call,
    calls,
    end_tag,
    says,
    slowly,
    tag,
)
from agent.scripted_agent import Echo
from whitedwarf.agent.events import AnswerEnded, Drawn, Event, Notice, Reading, ToolBegan, ToolEnded, TurnBegan
from whitedwarf.agent.tool import Arguments, Outcome, Running

WORDS = 'so then we look at the file and see 日本 🦔 <b> </think> { } "x" [upto] \n\n <｜User｜>'
KINDS = (Reading, Drawn, ToolBegan, ToolEnded, AnswerEnded, TurnBegan)
CONTEXT = 4096


def phrase(rng: random.Random) -> Part:
    words = WORDS.split(" ")
    return slowly(" ".join(rng.choices(words, k=rng.randint(1, 12))))


def invocation(rng: random.Random) -> Invocation:
    path = rng.choice(["a.txt", "b/c.txt", "../outside/secret.txt", "", "none", "/etc/hostname"])
    old = rng.choice(["one", "nowhere", "[upto]", "o[upto]e", ""])
    return rng.choice(
        [
            call("read", path=path, start_line=rng.randint(0, 3)),
            call("more", count=rng.randint(1, 3)),
            call("write", path=path, content=WORDS * rng.randint(0, 3)),
            call("edit", path=path, old=old, new=WORDS),
            call("list", path=path),
            call("search", query=rng.choice(["o", "(", ""]), mode=rng.choice(["regex", "literal", "odd"])),
            call("echo", text=WORDS),
            call("teleport"),
            call("big"),
        ]
    )


def ending(rng: random.Random) -> tuple[Part, ...]:
    """What stands behind the words of an answer: nothing, calls, or what was meant as such."""
    broken: list[tuple[Part, ...]] = [
        (begun("write", "content", "half", path="a.txt"),),
        ("\n\n", tag("calls"), "\n", end_tag("calls")),
        (tag("invoke", ' name="'),),
        (invocation(rng).pieces,),
        (block(invocation(rng)), "and more"),
        ("<", {"special": "｜DSML｜"}, "what"),
    ]
    several = block(*(invocation(rng) for _ in range(rng.randint(1, 4))))
    return rng.choice([(), (several,), (several,), (several,), rng.choice(broken)])


def reply(rng: random.Random, is_thinking: bool) -> Reply:
    thought: tuple[Part, ...] = (phrase(rng), THOUGHT_ENDS) if is_thinking and rng.random() < 0.9 else ()
    finish = "length" if rng.random() < 0.1 else "stop"
    delay_ms, prefill_s = rng.choice([0, 0, 1]), rng.choice([0, 0, 0.05])
    return says(*thought, phrase(rng), *ending(rng), finish=finish, delay_ms=delay_ms, prefill_s=prefill_s)


def meddle(scene: Scene, rng: random.Random) -> None:
    """At some events the user writes, takes back, or interrupts; not all of them have to come."""

    def act() -> None:
        deed = rng.choice(["write", "write", "take", "interrupt", "interrupt", "compact", "nothing"])
        if deed == "write":
            scene.agent.submit(rng.choice([WORDS, "Go on.", ""]))
        elif deed == "take":
            scene.agent.take_queued()
        elif deed == "interrupt":
            scene.agent.interrupt()
        elif deed == "compact":
            scene.agent.request(scene.agent.compact)

    left = [rng.randint(1, 60) for _ in range(4)]

    def counts(event: Event) -> None:
        if isinstance(event, KINDS):
            left[:] = [count - 1 for count in left]
            for _ in range(left.count(0)):
                act()

    scene.watch = counts


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_all_promises_hold(play: Play, seed: int) -> None:
    rng = random.Random(seed)
    is_thinking = rng.random() < 0.5
    script = [reply(rng, is_thinking) for _ in range(12)]
    big = Echo("big", lambda arguments, running: Outcome(" the" * rng.randint(0, 1500)))
    files = {"a.txt": "one\ntwo\nthree\n" * 20, "b/c.txt": WORDS}
    settings = THINKING if is_thinking else SHORT
    with play(
        *script, says("End."), files=files, tools=[Echo(), big], settings=settings, context_length=CONTEXT
    ) as scene:
        meddle(scene, rng)
        scene.user("First.", "Second.", WORDS)
        assert (scene.folder / "outside" / "secret.txt").read_text() == "nobody's business\n"


def test_a_listener_that_breaks_does_not_break_the_session(play: Play) -> None:
    with play(calls(call("list")), says("Done.")) as scene:
        scene.foreseen = ["listener_failed"]

        def fail() -> None:
            raise RuntimeError("a screen's trouble")

        scene.when(saw(ToolEnded), fail)
        scene.user("List.")
        assert scene.said == "Done."


def test_a_request_that_breaks_does_not_break_the_session(play: Play) -> None:
    with play(says("Done.")) as scene:
        scene.foreseen = ["request_failed"]
        scene.agent.request(lambda: {}["nothing"])  # type: ignore[misc]
        scene.user("Go.")
        assert "That failed: KeyError: 'nothing'" in scene.notices
        assert scene.said == "Done."


def test_an_engine_that_is_gone_is_told_and_the_words_stay(play: Play) -> None:
    with play(says("Done.")) as scene:
        scene.engine.close()
        scene.user("Go.")
        assert any("engine" in event.text for event in scene.of(Notice) if event.is_error)
        assert "<｜User｜>Go." in scene.conversation


def test_tools_may_show_much_while_they_run(play: Play) -> None:
    def act(arguments: Arguments, running: Running) -> Outcome:
        for number in range(2000):
            running.tell(f"{number}\n")
        return Outcome("ok")

    with play(calls(call("chatty")), says("Done."), tools=[Echo("chatty", act)]) as scene:
        scene.user("Go.")
        assert scene.results == ["ok"]
