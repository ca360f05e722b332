"""Conversations with tools: calls, parallel calls, results and errors, no tool needed, no such tool.

`tool_turn` makes the evaluation's form: one request to answer. `tool_session` makes many turns under one set of tools,
so that a prompt's fixed part is paid for once and most tokens of a row teach.
"""

from collections.abc import Iterator
from random import Random
from typing import Literal

from nano.curriculum.arithmetic import small_addition
from nano.curriculum.conversation import Conversation, Message, said
from nano.curriculum.copying import copying
from nano.curriculum.facts import fact, held_out_fact
from nano.curriculum.known_tools import KNOWN
from nano.curriculum.small_talk import small_talk
from nano.curriculum.structured import spoken
from nano.curriculum.texts import Exchange, long_system_text, system_text
from nano.curriculum.tools import Tool, distinct, invented_tool, known_tool, renamed, toolset
from nano.curriculum.values import one_of, words
from nano.curriculum.words import NOUNS

TurnKind = Literal["call", "parallel", "nocall", "missing", "result", "second"]
NO_TOOL = "I do not have a tool for that."
HAVE_RESULT = "I have the result."
_JOINTS = [" Then ", " Also ", "\n", " And "]
_CLEARLY_MISSING = ("weather", "time", "mail", "timer", "light")  # no other tool could do it

Planned = list[tuple[Tool, list[object]]]


def tool_turn(
    rng: Random, kind: TurnKind | None = None, *, many_tools: bool = False, long_system: float = 0.0, held_out=False
) -> Conversation:
    """One request under one to four tools (up to eight with `many_tools`), now and then after some small talk."""
    kinds: list[TurnKind] = ["call", "result", "nocall", "parallel", "second", "missing"]
    kind = kind or rng.choices(kinds, [42, 14, 12, 15, 9, 8])[0]
    tools = toolset(rng, rng.choice([1, 2, 3, 4, 5, 6, 8] if many_tools else [1, 1, 2, 2, 3, 4]))
    messages = _opening(rng, long_system)
    if kind != "nocall" and rng.random() < 0.12:
        for _ in range(rng.randint(1, 2)):
            messages += said(one_of(rng, [small_talk, fact]), thought="")
    match kind:
        case "nocall":
            messages += _without_tool(rng, held_out=held_out)
        case "missing":
            messages += _missing(rng, tools, only_known=True) or _without_tool(rng, held_out=held_out)
        case "call" | "parallel":
            messages += _calls(rng, *(_parallel(rng, tools) if kind == "parallel" else _single(rng, rng.choice(tools))))
        case "result" | "second":
            messages += _with_results(rng, *_single(rng, rng.choice(tools)))
    if kind == "second":
        if rng.random() < 0.4:
            messages += _without_tool(rng, held_out=held_out, only_talk=True)
        else:
            messages += _calls(rng, *_single(rng, rng.choice(tools)))
    return Conversation(messages, [tool.schema(rng) for tool in tools])


def tool_session(rng: Random, turns: int, tool_count: int, *, long_system: bool = False) -> Conversation:
    """Many requests under one set of tools, each tool in its turn; the last may end with the call."""
    tools = toolset(rng, tool_count, renames=rng.random() < 0.6)
    messages = _opening(rng, 0.0)
    deck: list[Tool] = []
    for turn in range(turns):
        kind = rng.choices(["call", "parallel", "nocall", "missing"], [48, 28, 15, 9])[0]
        if kind == "nocall":
            messages += _without_tool(rng)
        elif kind == "missing":
            messages += _missing(rng, tools, only_known=rng.random() < 0.8) or _without_tool(rng)
        else:
            deck = deck or rng.sample(tools, len(tools))
            planned = _parallel(rng, tools) if kind == "parallel" else _single(rng, deck.pop())
            is_open = turn == turns - 1 and rng.random() < 0.6
            messages += (_calls if is_open else _with_results)(rng, *planned)
    conversation = Conversation(messages, [tool.schema(rng) for tool in tools])
    if long_system:
        conversation.with_system(long_system_text(rng, 40, 160))
    return conversation


def choice_session(rng: Random) -> Conversation:
    """One request of each kind that only one tool could serve, whether or not that is offered.

    Elsewhere the request alone tells which is likelier; here only the list of tools does.
    """
    offered = rng.sample(_CLEARLY_MISSING, rng.choice([1, 2, 3, 3, 4, 4]))
    others = [invented_tool(rng) if rng.random() < 0.3 else known_tool(rng) for _ in range(rng.randint(0, 3))]
    mixed = [known_tool(rng, kind) for kind in offered]
    mixed += [tool for tool in others if tool.kind not in _CLEARLY_MISSING]
    rng.shuffle(mixed)
    tools = distinct(renamed(rng, tool) if rng.random() < 0.7 else tool for tool in mixed)
    by_kind = {tool.kind: tool for tool in tools}
    messages = _opening(rng, 0.0)
    for kind in rng.sample(_CLEARLY_MISSING, len(_CLEARLY_MISSING)):
        if kind in by_kind:
            messages += _with_results(rng, *_single(rng, by_kind[kind]))
        else:
            messages += _without(rng, kind)
    return Conversation(messages, [tool.schema(rng) for tool in tools])


def parallel_session(rng: Random, turns: int, tool_count: int) -> Conversation:
    """Several calls asked for at once, again and again."""
    tools = toolset(rng, tool_count, renames=rng.random() < 0.6)
    messages = _opening(rng, 0.0)
    for turn in range(turns):
        is_open = turn == turns - 1 or rng.random() < 0.1
        messages += (_calls if is_open else _with_results)(rng, *_parallel(rng, tools))
        if is_open:
            break
    return Conversation(messages, [tool.schema(rng) for tool in tools])


def many_calls(rng: Random) -> Conversation:
    """One message that asks for three to six calls of several tools."""
    tools = toolset(rng, rng.randint(2, 5))
    planned = [(tool, tool.values(rng)) for tool in rng.choices(tools, k=rng.randint(3, 6))]
    request = rng.choice(_JOINTS[:3]).join(tool.request(rng, values) for tool, values in planned)
    messages = [*_opening(rng, 0.0), *_calls(rng, request, planned)]
    return Conversation(messages, [tool.schema(rng) for tool in tools])


def _opening(rng: Random, long_system: float) -> list[Message]:
    system = system_text(rng, long_system)
    return [] if system is None else [Message("system", system)]


def _single(rng: Random, tool: Tool) -> tuple[str, Planned]:
    values = tool.values(rng)
    return tool.request(rng, values), [(tool, values)]


def _parallel(rng: Random, tools: list[Tool]) -> tuple[str, Planned]:
    """Two to four calls of one tool or of several, asked for at once."""
    if rng.random() >= 0.55 and len(tools) > 1:
        chosen = rng.sample(tools, min(len(tools), rng.choice([2, 2, 2, 3, 4])))
        planned = [(tool, tool.values(rng)) for tool in chosen]
    else:
        tool = rng.choice(tools)
        planned = [(tool, tool.values(rng)) for _ in range(rng.choice([2, 2, 3, 3, 4]))]
        if tool.requests and len(tool.parameters) == 1 and rng.random() < 0.7:
            *first, last = [spoken(values[0]) for _, values in planned]
            return rng.choice(tool.requests).format(f"{', '.join(first)} and {last}"), planned
    return rng.choice(_JOINTS).join(tool.request(rng, values) for tool, values in planned), planned


def _calls(rng: Random, request: str, planned: Planned) -> list[Message]:
    calls = tuple(tool.call(values) for tool, values in planned)
    thought = f"I should call {' and '.join(call.name for call in calls)}."
    return [Message("user", request), Message("assistant", "", thought, calls)]


def _with_results(rng: Random, request: str, planned: Planned) -> list[Message]:
    results = [tool.result(rng) if rng.random() < 0.92 else _error(rng) for tool, _ in planned]
    answers = [tool.answer(values, result) for (tool, values), result in zip(planned, results, strict=True)]
    return [
        *_calls(rng, request, planned),
        *(Message("tool", result) for result in results),
        Message("assistant", "\n".join(answers), HAVE_RESULT),
    ]


def _error(rng: Random) -> str:
    usual = ["file not found", "permission denied", "timeout", f"invalid {rng.choice(NOUNS)}"]
    return "Error: " + rng.choice([*usual, f"no such {rng.choice(NOUNS)}", words(rng, 1, 3)])


def _without_tool(rng: Random, *, held_out: bool = False, only_talk: bool = False) -> list[Message]:
    a_fact = held_out_fact if held_out else fact
    makers = [small_talk, a_fact] if only_talk else [small_talk, small_talk, a_fact, small_addition, copying]
    exchange: Exchange = one_of(rng, makers)
    return said(exchange, thought=f"No tool is needed. {exchange.thought}")


def _missing(rng: Random, tools: list[Tool], *, only_known: bool) -> list[Message]:
    """A request for something no tool on offer does; empty when every candidate is on offer."""
    if only_known:
        kinds = [kind for kind in _CLEARLY_MISSING if kind not in {tool.kind for tool in tools}]
        if not kinds:
            return []
        return _without(rng, rng.choice(kinds))
    absent = next(tool for tool in _invented_tools(rng) if tool.name not in {given.name for given in tools})
    return _refused(absent.request(rng, absent.values(rng)))


def _without(rng: Random, kind: str) -> list[Message]:
    """A request for a known kind of tool that is not there."""
    absent = known_tool(rng, kind)
    return _refused(rng.choice(KNOWN[kind].requests).format(*map(spoken, absent.values(rng))))


def _refused(request: str) -> list[Message]:
    return [Message("user", request), Message("assistant", NO_TOOL, "I have no tool for this.")]


def _invented_tools(rng: Random) -> Iterator[Tool]:
    while True:
        yield invented_tool(rng)
