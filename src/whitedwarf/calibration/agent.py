"""Replays of agents at work: tasks, tools, files, mistakes found and mended, logs, and what is said at the end.

What the tools answer fits what was asked: a file that is read has the mistake that the test complained of, and the diff
is the change that was made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from whitedwarf.calibration.agent_tools import MANNERS, SERVICES, Asked, Manner, call, service_call
from whitedwarf.calibration.code_samples import Sample, diff, numbered, path_of, sample
from whitedwarf.calibration.dice import Dice
from whitedwarf.calibration.words import NOUNS, PATH_PARTS, VERBS, date, moment, moments, noun_phrase, snake
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.tools import ToolDefinition

RULES = (
    "Answer in a few sentences unless the user asks for more.",
    "Read a file before you change it, and change no more than the task needs.",
    "Never invent the output of a command; run it.",
    "Keep the style of the code that is there: its names, its indentation, its way of testing.",
    "Run the tests after every change, and say plainly when they fail.",
    "Do not commit, push or delete anything unless you are asked to.",
    "When a command fails, read the message before you try something else.",
    "If the task is unclear, look at the code first and ask afterwards.",
    "Independent calls may be made together in one turn.",
    "Quote paths as path:line so that the user can find the place.",
    "Comments explain why, never what.",
    "Secrets do not belong into code, logs or answers.",
)


@dataclass(slots=True)
class Replay:
    """A conversation that grows step by step."""

    dice: Dice
    is_thinking: bool
    messages: list[Message] = field(default_factory=list)

    def user(self, text: str) -> None:
        self.messages.append(UserMessage(text))

    def act(self, thought: str, said: str, *steps: tuple[Asked, str]) -> None:
        """Calls made in one turn, and what each gives back."""
        calls = [(call(self.dice, asked), result) for asked, result in steps]
        reasoning = thought if self.is_thinking else None
        self.messages.append(AssistantMessage(said, reasoning, tuple(made for made, _ in calls)))
        self.messages.extend(ToolMessage(result, made.id) for made, result in calls)

    def say(self, thought: str, text: str) -> None:
        self.messages.append(AssistantMessage(text, thought if self.is_thinking else None))

    def finished(self, tools: tuple[ToolDefinition, ...]) -> Conversation:
        return Conversation(tuple(self.messages), self.is_thinking, tools)


def agent_replay(dice: Dice, is_thinking: bool) -> Conversation:
    """One of the kinds of work."""
    kind = dice.weighted({"mend": 40, "rename": 15, "explain": 15, "operate": 12, "services": 18})
    replay = Replay(dice, is_thinking)
    if kind == "services":
        return _services(replay)
    manner = dice.pick(MANNERS)
    replay.messages.append(SystemMessage(system_text(dice)))
    for job in [kind, *dice.some(tuple(_JOBS), dice.weighted({0: 60, 1: 25, 2: 15}))]:
        _JOBS[job](replay, manner)
    return replay.finished(manner.tools)


def system_text(dice: Dice) -> str:
    """Who the agent is, its rules, and where it works."""
    rules = "\n".join(f"- {rule}" for rule in dice.some(RULES, dice.between(3, 9)))
    folder = f"/home/{dice.pick(NOUNS)}/{dice.pick(NOUNS)}-{dice.pick(NOUNS)}"
    branch = f"{dice.pick(VERBS)}-{dice.pick(NOUNS)}"
    place = f"Working directory: {folder}\nPlatform: linux\nDate: {date(dice)}\nBranch: {branch}"
    opening = dice.pick(
        (
            "You are a coding agent that works in the user's project.",
            "You are an assistant for software engineers. You have tools to look at and to change the project.",
            "You help with a code base from a terminal.",
        )
    )
    return f"{opening}\n\n# Rules\n{rules}\n\n# Environment\n{place}"


def test_log(dice: Dice, code: Sample, path: str, *, failed: bool) -> str:
    """What a run of the tests prints."""
    count, seconds = dice.between(4, 60), f"{dice.between(10, 900) / 100:.2f}"
    if not failed:
        return f"$ {code.tongue.test}\n{'.' * min(count, 60)}\n{count} passed in {seconds}s"
    got, wanted = dice.between(0, 99), dice.between(100, 200)
    lines = code.code.split("\n")
    return (
        f"$ {code.tongue.test}\n{'.' * (count - 1)}F\n"
        f"FAILED {path}:{lines.index(code.right_line) + 1} in test of {code.function}\n"
        f"    expected {wanted}, got {got}\n"
        f"{moment(dice)} worker {dice.below(8)} stopped with code 1\n1 failed, {count - 1} passed in {seconds}s"
    )


def _mend(replay: Replay, manner: Manner) -> None:
    dice = replay.dice
    code = sample(dice)
    path, other = path_of(dice, code.tongue), sample(dice, code.language)
    broken = f"{code.broken}\n{other.code}"
    folder = path.partition("/")[0]
    at = broken.split("\n").index(code.wrong_line) + 1
    test = manner.run(code.tongue.test)
    replay.user(
        dice.pick(
            (
                f"The tests fail since yesterday. Find out why and mend it, "
                f"please.\n\n{test_log(dice, code, path, failed=True)}",
                f"`{code.function}` gives wrong results for the {noun_phrase(dice)}. Can you fix it?",
                f"CI is red: something about {code.function}. Please look into it and make it green again.",
            )
        )
    )
    replay.act(
        f"I should first see the failure myself, so I run the tests with `{code.tongue.test}`.",
        dice.pick(("I'll run the tests first.", "Let me see the failure.", "")),
        (test, test_log(dice, code, path, failed=True)),
    )
    if dice.chance(35):
        missing = path.replace(".", "_old.")
        replay.act(
            f"Where is {code.function}? I try the file that the name suggests.",
            "",
            (manner.read(missing), f"Error: {missing}: no such file or directory"),
        )
    hits = f"{path}:{at}:{code.wrong_line.strip()}\n{path}:1:{broken.splitlines()[0]}"
    search, read = (manner.search(code.function, folder), hits), (manner.read(path), numbered(broken))
    if dice.chance(40):
        replay.act(
            "Searching and reading do not depend on each other.", "I look for its uses and read it.", search, read
        )
    else:
        replay.act(f"The function is {code.function}; a search tells which file has it.", "", search)
        replay.act(f"It is in {path}. Now the code around line {at}.", "", read)
    patch = diff(path, broken, code.wrong_line, code.right_line)
    replay.act(
        f"Line {at} reads `{code.wrong_line.strip()}`. That is not what the comment promises: it should be "
        f"`{code.right_line.strip()}`. Nothing else has to change.",
        f"Found it, {path}:{at}.",
        (manner.edit(path, code.wrong_line, code.right_line, patch), f"The file {path} has been updated.\n{patch}"),
    )
    replay.act("Now the tests again.", "", (test, test_log(dice, code, path, failed=False)))
    replay.say(
        "All tests pass. I sum it up: the cause, the change, the proof.",
        f"The tests pass again. In `{path}:{at}` the line "
        f"was\n\n```{code.fence}\n{code.wrong_line.strip()}\n```\n\nand is now\n\n"
        f"```{code.fence}\n{code.right_line.strip()}\n```\n\nNothing else was changed.",
    )
    if dice.chance(40):
        replay.user(dice.pick(("Thanks! Please show me the diff.", "What exactly did you change?", "git diff?")))
        replay.act("The user wants the diff.", "", (manner.run("git diff"), f"diff --git a/{path} b/{path}\n{patch}"))
        replay.say("One line changed.", f"Just this one line:\n\n```diff\n{patch}\n```")


def _rename(replay: Replay, manner: Manner) -> None:
    dice = replay.dice
    code, uses = sample(dice), []
    new = code.function + dice.pick(("2", "All", "Now")) if code.tongue.functions != "snake" else snake(dice)
    for _ in range(dice.between(2, 4)):
        uses.append(
            (
                path_of(dice, code.tongue),
                f"    {dice.pick(NOUNS)} = {code.function}({dice.pick(NOUNS)}, {dice.below(90)})",
            )
        )
    hits = "\n".join(f"{path}:{dice.between(3, 300)}:{line}" for path, line in uses)
    replay.user(f"Rename `{code.function}` to `{new}` everywhere.")
    replay.act(
        "First all places that use the name.", "I look for every use.", (manner.search(code.function, "."), hits)
    )
    edits = []
    for path, line in uses:
        changed = line.replace(code.function, new)
        patch = f"@@ -1 +1 @@\n-{line}\n+{changed}"
        edits.append((manner.edit(path, line, changed, patch), f"ok: {path}"))
    replay.act(f"{len(uses)} files; the edits are independent of each other.", "", *edits)
    replay.act(
        "Is anything left?",
        "",
        (manner.search(code.function, "."), "(no matches)"),
        (manner.run(code.tongue.test), test_log(dice, code, uses[0][0], failed=False)),
    )
    files = "\n".join(f"- `{path}`" for path, _ in uses)
    replay.say(
        "No use is left and the tests pass.",
        f"`{code.function}` is now `{new}` in {len(uses)} files:\n\n{files}\n\nThe tests pass.",
    )


def _explain(replay: Replay, manner: Manner) -> None:
    dice = replay.dice
    one, two = sample(dice), sample(dice)
    paths = [path_of(dice, code.tongue) for code in (one, two)]
    listing = "\n".join(
        sorted([*paths, *(f"{dice.pick(PATH_PARTS)}/{dice.pick(NOUNS)}.md" for _ in range(dice.between(2, 9)))])
    )
    replay.user(
        dice.pick(
            (
                f"What does {one.function} do, and who needs it?",
                "Give me a tour of this project.",
                f"How do `{one.function}` and `{two.function}` differ?",
            )
        )
    )
    replay.act("I need an overview of the files first.", "", (manner.run("git ls-files"), listing))
    reads = [(manner.read(path), numbered(code.code)) for path, code in zip(paths, (one, two), strict=True)]
    replay.act("These two look like the heart of it. I read both.", "Reading the two main files.", *reads)
    replay.say(
        f"{one.function} is in {paths[0]}, {two.function} in {paths[1]}; the comments say what they are for.",
        f"There are two parts that matter:\n\n1. `{paths[0]}` ({one.language}) has `{one.function}`. The line that "
        f"decides is "
        f"`{one.right_line.strip()}`.\n2. `{paths[1]}` ({two.language}) has `{two.function}`, which ends where "
        f"`{two.right_line.strip()}` says so.\n\nThey do not call each other; both are used from outside.",
    )


def _operate(replay: Replay, manner: Manner) -> None:
    dice = replay.dice
    service, port = f"{dice.pick(NOUNS)}-{dice.pick(('api', 'worker', 'gateway'))}", dice.between(1024, 65000)
    levels = ("INFO", "INFO", "INFO", "WARN", "ERROR")
    log = "\n".join(
        f"{at} {dice.pick(levels)} {service}[{dice.digits(5)}]: {snake(dice)} {dice.pick(NOUNS)}={dice.hex(8)} "
        f"took {dice.between(1, 9000)} ms"
        for at in moments(dice, dice.between(8, 40))
    )
    full = f"98G   {dice.between(88, 97)}G  {dice.below(9)}.{dice.below(9)}G  9{dice.below(9)}% /"
    disk = f"Filesystem      Size  Used Avail Use% Mounted on\n/dev/sda{dice.below(9)}        {full}"
    replay.user(f"The service {service} on port {port} answers slowly. What is going on?")
    replay.act(
        "Log and disk first; both calls are harmless.",
        "I look at the log and the disk.",
        (manner.run(f"journalctl -u {service} -n 40 --no-pager"), log),
        (manner.run("df -h /"), disk),
    )
    replay.act(
        "The disk is nearly full. Is the port served at all?",
        "",
        (
            manner.run(f"ss -ltnp | grep {port}"),
            f'LISTEN 0 {dice.between(1, 512)} 127.0.0.1:{port} users:(("{service}",pid={dice.digits(5)},fd=7))',
        ),
    )
    replay.say(
        "The process listens; the disk is the problem.",
        f"`{service}` runs and listens on {port}, but the disk is almost full:\n\n```\n{disk}\n```\n\nOld logs are "
        f"the usual reason. I have changed nothing; shall I list the largest folders?",
    )


def _services(replay: Replay) -> Conversation:
    dice = replay.dice
    tools = tuple(dice.some(SERVICES, dice.between(2, len(SERVICES))))
    if dice.chance(60):
        replay.messages.append(
            SystemMessage(
                dice.pick(
                    (
                        "You are a helpful assistant.",
                        "Use the tools where they help; answer briefly.",
                        "You are the assistant of a small company.",
                    )
                )
            )
        )
    for _ in range(dice.between(1, 3)):
        wanted = [service_call(dice, chosen.name) for chosen in dice.some(tools, dice.between(1, 2))]
        replay.user(
            f"I need to know {' and '.join(wish for wish, _, _ in wanted)}. "
            if dice.chance(50)
            else f"Please find out or do this: {'; '.join(wish for wish, _, _ in wanted)}."
        )
        names = " and ".join(asked[0] for _, asked, _ in wanted)
        replay.act(f"For this I need {names}.", "", *((asked, result) for _, asked, result in wanted))
        results = "\n".join(f"- {wish}: {result}" for wish, _, result in wanted)
        replay.say("The results are there; I tell them plainly.", f"Here is what came back:\n\n{results}")
    return replay.finished(tools)


_JOBS: Mapping[str, Callable[[Replay, Manner], None]] = {
    "mend": _mend,
    "rename": _rename,
    "explain": _explain,
    "operate": _operate,
}
