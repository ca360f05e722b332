"""An agent's conversation, made up from a seed, as the request bodies of the three dialects.

Promises: the same seed gives the same conversation; every dialect's body becomes the same kind of prompt: tools, a long
system prompt, steps of thinking, calls and results. A conversation grows only at its end, as an agent's does.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from whitedwarf.bench.recipe_text import AgentText
from whitedwarf.conversation.json_value import Json

MODEL = "DeepSeek-V4-Pro"
NUM_TOOLS = 14
FEWEST_STEPS = 2


@dataclass(frozen=True, slots=True)
class Call:
    """One call and what it gave."""

    id: str
    name: str
    arguments: str  # JSON
    result: str


@dataclass(frozen=True, slots=True)
class Step:
    """What the model thought and said, and its calls; or, where `user` is set, what the user said before that."""

    user: str
    thinking: str
    text: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class AgentConversation:
    """System prompt, tools as (name, description, schema), and the steps so far."""

    system: str
    tools: tuple[tuple[str, str, Json], ...]
    steps: tuple[Step, ...]


def agent_step(source: AgentText, tools: tuple[tuple[str, str, Json], ...], number: int) -> Step:
    """The step of that number: every eighth begins with the user, most have one call, some two."""
    choose = source.random
    calls = tuple(
        Call(
            f"call_{number}_{index}",
            choose.choice(tools)[0],
            json.dumps({"path": source.path(), "offset": choose.randint(0, 2000), "text": source.prose(8)}),
            source.tool_result(choose.choice((2, 8, 30, 80))),
        )
        for index in range(choose.choice((1, 1, 1, 2)))
    )
    user = "" if number % 8 else source.prose(60)
    return Step(user, source.prose(choose.choice((20, 60, 150))), source.prose(25), calls)


def make_conversation(seed: int, tokens: int, count: Callable[[str], int]) -> tuple[AgentConversation, Step]:
    """A conversation of at least that many tokens, as `count` counts them, and the step that follows it."""
    source = AgentText(seed)
    system = "\n\n".join(f"# {source.name()}\n{source.prose(120)}" for _ in range(12))
    tools = tuple(_tool(source) for _ in range(NUM_TOOLS))
    steps: list[Step] = []
    size = count(system) + count(json.dumps(tools))
    while size < tokens or len(steps) < FEWEST_STEPS:
        steps.append(agent_step(source, tools, len(steps)))
        size += count(repr(steps[-1]))
    return AgentConversation(system, tools, tuple(steps)), agent_step(source, tools, len(steps))


def grown(conversation: AgentConversation, step: Step) -> AgentConversation:
    """The conversation with one step more."""
    return AgentConversation(conversation.system, conversation.tools, (*conversation.steps, step))


def _tool(source: AgentText) -> tuple[str, str, Json]:
    properties: dict[str, Json] = {
        "path": {"type": "string", "description": source.prose(12)},
        "offset": {"type": "integer", "description": source.prose(20)},
        "text": {"type": "string", "description": source.prose(10)},
        source.name(): {"type": "array", "items": {"type": "string"}, "description": source.prose(15)},
    }
    schema: Json = {"type": "object", "properties": properties, "required": ["path"]}
    return f"{source.name()}_{source.random.randint(0, 9999)}", source.prose(80), schema


def chat_body(conversation: AgentConversation) -> bytes:
    """As Chat Completions."""
    messages: list[Json] = [{"role": "system", "content": conversation.system}]
    for step in conversation.steps:
        messages += [{"role": "user", "content": step.user}] if step.user else []
        calls: list[Json] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in step.calls
        ]
        answer = {"role": "assistant", "content": step.text, "reasoning_content": step.thinking, "tool_calls": calls}
        messages += [
            answer,
            *({"role": "tool", "tool_call_id": call.id, "content": call.result} for call in step.calls),
        ]
    tools: list[Json] = [
        {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
        for name, description, schema in conversation.tools
    ]
    return _bytes({"model": MODEL, "messages": messages, "tools": tools, "stream": True})


def messages_body(conversation: AgentConversation) -> bytes:
    """As Anthropic Messages."""
    messages: list[Json] = []
    results: list[Json] = []
    for step in conversation.steps:
        said = [*results, *([{"type": "text", "text": step.user}] if step.user else [])]
        messages.append({"role": "user", "content": said})
        calls: list[Json] = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
            for call in step.calls
        ]
        thought: Json = {"type": "thinking", "thinking": step.thinking, "signature": "s"}
        messages.append({"role": "assistant", "content": [thought, {"type": "text", "text": step.text}, *calls]})
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": call.result} for call in step.calls]
    messages.append({"role": "user", "content": results})
    tools: list[Json] = [
        {"name": name, "description": description, "input_schema": schema}
        for name, description, schema in conversation.tools
    ]
    head: dict[str, Json] = {"model": MODEL, "max_tokens": 32000, "system": conversation.system, "stream": True}
    return _bytes(head | {"messages": messages, "tools": tools})


def responses_body(conversation: AgentConversation) -> bytes:
    """As Responses."""
    items: list[Json] = []
    for step in conversation.steps:
        items += [{"type": "message", "role": "user", "content": step.user}] if step.user else []
        thought: list[Json] = [{"type": "reasoning_text", "text": step.thinking}]
        items.append({"type": "reasoning", "id": "rs", "summary": [], "content": thought})
        said: list[Json] = [{"type": "output_text", "text": step.text}]
        items.append({"type": "message", "role": "assistant", "content": said})
        for call in step.calls:
            items.append({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments})
        for call in step.calls:
            items.append({"type": "function_call_output", "call_id": call.id, "output": call.result})
    tools: list[Json] = [
        {"type": "function", "name": name, "description": description, "parameters": schema}
        for name, description, schema in conversation.tools
    ]
    return _bytes({"model": MODEL, "instructions": conversation.system, "input": items, "tools": tools, "stream": True})


BODIES: dict[str, Callable[[AgentConversation], bytes]] = {
    "chat": chat_body,
    "responses": responses_body,
    "messages": messages_body,
}


def _bytes(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()
