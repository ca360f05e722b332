"""Conversation -> prompt and answer text, by DeepSeek's own recipe (`deepseek-recipe`), never by our encoder.

So nano learns the real format, and our encoder can be tested on what nano was taught.
"""

import json
from random import Random

from deepseek_recipe import (
    AssistantMessage,
    DeepseekV4Encoding,
    DeepseekV41Encoding,
    SystemMessage,
    ToolCall,
    ToolDefinition,
    ToolMessage,
    UserMessage,
)
from deepseek_recipe import Conversation as RecipeConversation

from nano.curriculum.conversation import Call, Conversation, Message

END = "<｜end▁of▁sentence｜>"
_V4, _V41 = DeepseekV4Encoding(), DeepseekV41Encoding()
_PARAGRAPH_START = "You have access to a set of tools"
_SCHEMAS_START = "### Available Tool Schemas"
_REMINDER = "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n"


def present(
    rng: Random, conversation: Conversation, *, thinking: float = 0.45, plain_effort: float = 0.3, v41: float = 0.06
) -> Conversation:
    """Decide thinking, effort and dialect. `plain_effort`: how often thinking is asked for without "low" effort."""
    conversation.is_thinking = rng.random() < thinking
    conversation.is_v41 = rng.random() < v41
    if conversation.is_thinking:
        if rng.random() > plain_effort:
            conversation.effort = "low"
        elif rng.random() < 0.3:
            conversation.effort = "max"
    return conversation


def render(conversation: Conversation) -> tuple[str, str]:
    """The prompt up to where the model speaks, and what it should say."""
    prompt = _prompt(conversation)
    if conversation.omits_instructions and conversation.tools:
        start, end = prompt.find(_PARAGRAPH_START), prompt.find(_SCHEMAS_START)
        prompt = (prompt[:start] + prompt[end:]).replace(_REMINDER, "\n")
    answer = conversation.answer
    thought = f"{answer.reasoning}</think>" if conversation.is_thinking else ""
    return prompt, thought + answer.content + calls_text(answer.calls, is_v41=conversation.is_v41) + END


def calls_text(calls: tuple[Call, ...], *, is_v41: bool) -> str:
    """Calls in DSML; empty without calls."""
    if not calls:
        return ""
    tag = "｜DSML｜ " if is_v41 else "｜DSML｜"
    block = "calls" if is_v41 else "tool_calls"
    lines = [f"\n\n<{tag}{block}>"]
    for call in calls:
        lines.append(f'<{tag}invoke name="{call.name}">')
        for name, value in call.arguments.items():
            is_text = isinstance(value, str)
            text = value if is_text else json.dumps(value, ensure_ascii=False)
            lines.append(
                f'<{tag}parameter name="{name}" string="{"true" if is_text else "false"}">{text}</{tag}parameter>'
            )
        lines.append(f"</{tag}invoke>")
    return "\n".join([*lines, f"</{tag}{block}>"])


def _prompt(conversation: Conversation) -> str:
    messages = _messages(conversation.messages[:-1], conversation.is_thinking)
    tools = [ToolDefinition(tool["name"], tool["description"], tool["parameters"]) for tool in conversation.tools]
    options: dict[str, object] = {}
    if conversation.effort:
        options["reasoning_effort"] = conversation.effort
    if conversation.is_json:
        options["response_format"] = "json_object"
    if conversation.answer_schema:
        options["response_schema"] = conversation.answer_schema
    recipe = RecipeConversation(messages, thinking_mode=conversation.is_thinking, tools=tools or None, **options)
    return (_V41 if conversation.is_v41 else _V4).render_conversation(recipe).prompt


def _messages(messages: list[Message], is_thinking: bool) -> list[object]:
    rendered: list[object] = []
    made = answered = 0  # tool calls so far, and results
    for message in messages:
        match message.role:
            case "system":
                rendered.append(SystemMessage(message.content))
            case "user":
                rendered.append(UserMessage(message.content))
            case "tool":
                rendered.append(ToolMessage(message.content, f"call_{answered}"))
                answered += 1
            case "assistant":
                calls = [
                    ToolCall(f"call_{made + i}", call.name, json.dumps(call.arguments, ensure_ascii=False))
                    for i, call in enumerate(message.calls)
                ]
                made += len(calls)
                reasoning = message.reasoning if is_thinking else None
                rendered.append(
                    AssistantMessage(message.content, reasoning_content=reasoning, tool_calls=calls or None)
                )
    return rendered
