"""The V4 prompt of any conversation.

Promises the exact text, control tokens and images of DeepSeek's own encoder (spec/recipe.md 8). The parts (`opening`,
`user_turn`, `answer_start`) may be tokenised one by one, for each begins and ends at a control token.
"""

from collections.abc import Hashable, Iterable
from functools import partial
from itertools import groupby

from whitedwarf.conversation.content import Content, is_empty, joined
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import (
    AssistantMessage,
    LatestReminder,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from whitedwarf.conversation.response_format import JsonSchema
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.conversation.tools import ToolCall, ToolChoice
from whitedwarf.prompt import dsml, literals
from whitedwarf.prompt.recipe_memory import RecipeMemory, Same
from whitedwarf.prompt.rendered import Prompt, PromptBuilder
from whitedwarf.prompt.runs import Run, runs
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import PUBLISHED, SpecialToken, Spellings
from whitedwarf.prompt.toolspec import format_text, tool_prompt

_EFFORT = {ReasoningEffort.LOW: "", ReasoningEffort.MAX: literals.V4_EFFORT_MAX}


def encode(conversation: Conversation, spellings: Spellings = PUBLISHED, memory: RecipeMemory | None = None) -> Prompt:
    """The whole prompt, up to where the model's answer begins or goes on."""
    builder = PromptBuilder(spellings, memory)
    builder.passage(_opening_key(conversation), lambda: _write_opening(builder, conversation))
    turns = _ordered(_merged(m for m in conversation.messages if not isinstance(m, SystemMessage)))
    ends_open = bool(turns) and _is_prefix(turns[-1])
    all_runs = runs(turns)
    for number, run in enumerate(all_runs, 1):
        stays_open = ends_open and number == len(all_runs)
        key = None if stays_open else ("V4", conversation.is_thinking, conversation.offers_tools, run)
        builder.passage(key, partial(_write_run, builder, conversation, run, stays_open=stays_open))
    if not ends_open:
        builder.extend(answer_start(is_thinking=conversation.is_thinking))
    if conversation.offers_tools and conversation.tool_choice is ToolChoice.REQUIRED:
        builder.extend(dsml.calls_opening(dsml.V4))
    return builder.finish()


def opening(conversation: Conversation) -> tuple[Segment, ...]:
    """What stands before the first turn."""
    builder = PromptBuilder(PUBLISHED)
    _write_opening(builder, conversation)
    return builder.finish().segments


def user_turn(text: str) -> list[Segment]:
    """What the user says."""
    return [Control(SpecialToken.USER), Text(text)]


def answer_start(*, is_thinking: bool) -> list[Segment]:
    """Where the model takes over: inside a thought, or with thinking already closed."""
    opener = SpecialToken.THINK_OPEN if is_thinking else SpecialToken.THINK_CLOSE
    return [Control(SpecialToken.ASSISTANT), Control(opener)]


def _opening_key(conversation: Conversation) -> Hashable | None:
    """All that the opening depends on."""
    if isinstance(conversation.response_format, JsonSchema):
        return None
    contents = tuple(m.content for m in conversation.messages if isinstance(m, SystemMessage))
    tools = Same(conversation.tools) if conversation.offers_tools else None
    thinking = conversation.is_thinking, conversation.reasoning_effort
    return "V4 opening", thinking, contents, tools, conversation.response_format


def _write_opening(builder: PromptBuilder, conversation: Conversation) -> None:
    builder.token(SpecialToken.BOS)
    if conversation.is_thinking:
        builder.text(_effort_text(conversation.reasoning_effort))
    _write_system(builder, [m.content for m in conversation.messages if isinstance(m, SystemMessage)])
    if conversation.offers_tools:
        builder.extend(tool_prompt(conversation.tools, dsml.V4))
    builder.text(format_text(conversation.response_format, literals.V4_JSON_OBJECT, dsml.V4.floats))


def _effort_text(effort: ReasoningEffort | None) -> str:
    return literals.V4_EFFORT_HIGH if effort is None else _EFFORT.get(effort, literals.V4_EFFORT_HIGH)


def _write_system(builder: PromptBuilder, contents: Iterable[Content]) -> None:
    # The images of an empty one, which have no place, go with it.
    builder.content(joined((content for content in contents if not is_empty(content)), literals.SEPARATOR))


def _merged(messages: Iterable[Message]) -> list[Message]:
    """Neighbouring user messages become one."""
    merged: list[Message] = []
    for is_user, group in groupby(messages, lambda message: isinstance(message, UserMessage)):
        alike = list(group)
        if is_user and len(alike) > 1:
            contents = [message.content for message in alike if isinstance(message, UserMessage)]
            alike = [UserMessage(joined(contents, literals.SEPARATOR))]
        merged += alike
    return merged


def _ordered(turns: list[Message]) -> list[Message]:
    """Right after an assistant's n calls, n turns are sorted: results first, by the id of their call."""
    calls = [
        (index, len(turn.tool_calls))
        for index, turn in enumerate(turns)
        if isinstance(turn, AssistantMessage) and turn.tool_calls is not None
    ]
    ordered = list(turns)
    for index, count in calls:
        window = slice(index + 1, index + 1 + count)
        if window.stop <= len(ordered):
            ordered[window] = sorted(ordered[window], key=_result_rank)
    return ordered


def _result_rank(turn: Message) -> tuple[bool, bool, str]:
    if not isinstance(turn, ToolMessage):
        return (True, False, "")
    return (False, turn.call_id is not None, turn.call_id or "")  # no id comes before an empty one


def _is_prefix(turn: Message) -> bool:
    return isinstance(turn, AssistantMessage) and turn.is_prefix


def _write_run(builder: PromptBuilder, conversation: Conversation, run: Run, *, stays_open: bool) -> None:
    earlier: Message | None = None
    for turn in run:
        match turn:
            case UserMessage(content):
                _write_user_side(builder, follows_on=isinstance(earlier, UserMessage | ToolMessage))
                builder.content(content)
            case ToolMessage(content):
                _write_user_side(builder, follows_on=isinstance(earlier, ToolMessage))
                builder.text(literals.RESULT_OPEN)
                builder.content(content)
                builder.text(literals.RESULT_CLOSE)
            case LatestReminder(content):
                builder.token(SpecialToken.LATEST_REMINDER)
                builder.text(content)
            case AssistantMessage():
                _write_assistant(builder, conversation, turn, stays_open=stays_open)
        earlier = turn


def _write_user_side(builder: PromptBuilder, *, follows_on: bool) -> None:
    if follows_on:
        builder.text(literals.SEPARATOR)
    else:
        builder.token(SpecialToken.USER)


def _write_assistant(
    builder: PromptBuilder, conversation: Conversation, turn: AssistantMessage, *, stays_open: bool
) -> None:
    builder.token(SpecialToken.ASSISTANT)
    if turn.reasoning is not None and (conversation.offers_tools or turn.is_prefix):
        builder.token(SpecialToken.THINK_OPEN)
        builder.own_words(turn.reasoning)
    if not (turn.is_prefix and conversation.is_thinking and not turn.content):
        builder.token(SpecialToken.THINK_CLOSE)
    builder.own_words(turn.content)
    if turn.spoken_calls is not None:
        builder.spoken_calls(turn.spoken_calls)
    elif turn.tool_calls is not None:
        builder.calls(sorted(turn.tool_calls, key=_call_id), dsml.V4)
    if not stays_open:
        builder.token(SpecialToken.EOS)


def _call_id(call: ToolCall) -> str:
    return call.id
