"""The V4.1 prompt of any conversation: system messages stay where they are, and tools may be brought in later.

Promises the exact text, control tokens and images of DeepSeek's own encoder (spec/recipe.md 8).
"""

from collections.abc import Hashable, Iterator, Sequence
from functools import partial

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import (
    AssistantMessage,
    LatestReminder,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from whitedwarf.conversation.response_format import JsonObject, JsonSchema
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.conversation.tools import ToolCall, ToolChoice
from whitedwarf.prompt import dsml, literals
from whitedwarf.prompt.recipe_memory import RecipeMemory, Same
from whitedwarf.prompt.rendered import Prompt, PromptBuilder
from whitedwarf.prompt.runs import Run, runs
from whitedwarf.prompt.special import PUBLISHED, SpecialToken, Spellings
from whitedwarf.prompt.toolspec import format_text, tool_prompt, updated_tools

_EFFORT = {ReasoningEffort.LOW: 50, ReasoningEffort.MAX: 100}
_USUAL_EFFORT = 75


def encode(conversation: Conversation, spellings: Spellings = PUBLISHED, memory: RecipeMemory | None = None) -> Prompt:
    """The whole prompt, up to where the model's answer begins or goes on."""
    builder = PromptBuilder(spellings, memory)
    turns = _ordered(_with_system_first(conversation))
    builder.passage(_opening_key(conversation, turns), lambda: _write_opening(builder, conversation, turns))
    ends_open = bool(turns) and isinstance(last := turns[-1], AssistantMessage) and last.is_prefix
    has_system = bool(turns) and isinstance(turns[0], SystemMessage)
    all_runs = runs(turns[has_system:])
    for number, run in enumerate(all_runs, 1):
        is_first = number == 1 and not has_system
        stays_open = ends_open and number == len(all_runs)
        key = None if stays_open else _run_key(conversation, run, is_first=is_first)
        builder.passage(key, partial(_write_run, builder, conversation, run, is_first=is_first))
    if not ends_open:
        builder.token(SpecialToken.ASSISTANT)
        builder.token(SpecialToken.THINK_OPEN if conversation.is_thinking else SpecialToken.THINK_CLOSE)
    if conversation.offers_tools and conversation.tool_choice is ToolChoice.REQUIRED:
        builder.extend(dsml.calls_opening(dsml.V41))
    return builder.finish()


def _with_system_first(conversation: Conversation) -> tuple[Message, ...]:
    """Tools and an answer's form are told in a system message at the start, if need be an empty one."""
    messages = conversation.messages
    has_system = bool(messages) and isinstance(messages[0], SystemMessage)
    needs_system = conversation.offers_tools or isinstance(conversation.response_format, JsonObject | JsonSchema)
    return messages if has_system or not needs_system else (SystemMessage(""), *messages)


def _opening_key(conversation: Conversation, turns: Sequence[Message]) -> Hashable | None:
    """All that the opening depends on."""
    first = turns[0] if turns and isinstance(turns[0], SystemMessage) else None
    if isinstance(conversation.response_format, JsonSchema) or (first and first.tools):
        return None
    tools = Same(conversation.tools) if conversation.offers_tools else None
    thinking = conversation.is_thinking, conversation.reasoning_effort, bool(turns)
    return "V4.1 opening", thinking, first and first.content, tools, conversation.response_format


def _write_opening(builder: PromptBuilder, conversation: Conversation, turns: Sequence[Message]) -> None:
    builder.token(SpecialToken.BOS)
    _write_effort(builder, conversation, turns)
    if turns and isinstance(first := turns[0], SystemMessage):
        _write_system(builder, conversation, first, is_first=True)


def _write_effort(builder: PromptBuilder, conversation: Conversation, turns: Sequence[Message]) -> None:
    is_thinking = conversation.is_thinking and bool(turns)
    if is_thinking or (turns and isinstance(turns[0], SystemMessage)):
        builder.token(SpecialToken.SYSTEM)
    if is_thinking:
        effort = conversation.reasoning_effort
        number = _USUAL_EFFORT if effort is None else _EFFORT.get(effort, _USUAL_EFFORT)
        builder.text(literals.V41_EFFORT.format(number))


def _ordered(messages: Sequence[Message]) -> list[Message]:
    """Results that stand together come in the order of their calls; messages without an id keep their places."""
    ordered = list(messages)
    for indices, ranks in _runs_of_results(messages):
        by_rank = sorted(indices, key=lambda index: ranks.get(_call_id(messages[index]), 0))
        for place, index in zip(indices, by_rank, strict=True):
            ordered[place] = messages[index]
    return ordered


def _runs_of_results(messages: Sequence[Message]) -> Iterator[tuple[list[int], dict[str | None, int]]]:
    """Indices of results between which nobody but the user speaks, and the ranks of the ids called last before."""
    ranks: dict[str | None, int] = {}
    run: list[int] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.call_id is not None:
                run.append(index)
        elif not isinstance(message, UserMessage):
            yield run, ranks
            run = []
            if isinstance(message, AssistantMessage) and message.tool_calls:
                ranks = _ranks(message.tool_calls)
    yield run, ranks


def _ranks(calls: Sequence[ToolCall]) -> dict[str | None, int]:
    return {call.id: rank for rank, call in reversed(list(enumerate(calls)))}  # of equal ids, the first counts


def _call_id(message: Message) -> str | None:
    return message.call_id if isinstance(message, ToolMessage) else None


def _run_key(conversation: Conversation, run: Run, *, is_first: bool) -> Hashable | None:
    """All that the run depends on."""
    if any(isinstance(turn, SystemMessage) and turn.tools for turn in run):
        return None
    return "V4.1", conversation.is_thinking, conversation.offers_tools, is_first, run


def _write_run(builder: PromptBuilder, conversation: Conversation, run: Run, *, is_first: bool) -> None:
    earlier: Message | None = None
    for turn in run:
        match turn:
            case SystemMessage():
                _write_system(builder, conversation, turn, is_first=False)
            case UserMessage(content):
                _write_user_side(builder, earlier)
                builder.content(content)
            case ToolMessage(content):
                _write_user_side(builder, earlier)
                builder.text(literals.RESULT_OPEN)
                builder.content(content)
                builder.text(literals.RESULT_CLOSE)
            case LatestReminder(content) if earlier is None:  # only the first of several is told
                builder.token(SpecialToken.LATEST_REMINDER)
                builder.text(content)
            case AssistantMessage():
                _write_assistant(builder, conversation, turn, is_first=is_first)
        earlier = turn


def _write_system(builder: PromptBuilder, conversation: Conversation, turn: SystemMessage, *, is_first: bool) -> None:
    if not is_first:
        builder.token(SpecialToken.SYSTEM)
    builder.content(turn.content)
    if is_first and conversation.offers_tools:
        builder.extend(tool_prompt(conversation.tools, dsml.V41))
    if is_first:
        builder.text(format_text(conversation.response_format, literals.V41_JSON_OBJECT, dsml.V41.floats))
    if turn.tools:
        builder.text(updated_tools(turn.tools, dsml.V41.floats))


def _write_user_side(builder: PromptBuilder, earlier: Message | None) -> None:
    if isinstance(earlier, UserMessage | ToolMessage):
        builder.text(literals.SEPARATOR)
    else:
        builder.token(SpecialToken.USER)


def _write_assistant(
    builder: PromptBuilder, conversation: Conversation, turn: AssistantMessage, *, is_first: bool
) -> None:
    builder.token(SpecialToken.ASSISTANT)
    shows_reasoning = conversation.is_thinking and (conversation.offers_tools or turn.is_prefix) and not is_first
    stays_open = shows_reasoning and turn.is_prefix and not turn.content and not turn.tool_calls
    if shows_reasoning:
        _write_reasoning(builder, turn)
    if not stays_open:
        builder.token(SpecialToken.THINK_CLOSE)
    builder.own_words(turn.content)
    if turn.spoken_calls is not None:
        builder.spoken_calls(turn.spoken_calls)
    elif turn.tool_calls:
        builder.calls(turn.tool_calls, dsml.V41)
    if not turn.is_prefix:
        builder.token(SpecialToken.EOS)


def _write_reasoning(builder: PromptBuilder, turn: AssistantMessage) -> None:
    if turn.reasoning or turn.is_prefix or builder.spells(SpecialToken.THINK_CLOSE):  # else nothing would be inside
        builder.token(SpecialToken.THINK_OPEN)
        builder.own_words(turn.reasoning or "")
