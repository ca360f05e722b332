"""The V4 prompt of a plain chat: system, user and assistant messages, thinking off, high or max.

Promises the exact text and control tokens of DeepSeek's reference encoder for these cases (spec/recipe.md 8); the parts
(`opening`, `user_turn`, `answer_start`) may be tokenised one by one, for each begins and ends at a control token.
Does not know tools, response formats or images.
"""

from collections.abc import Iterable, Sequence

from whitedwarf.conversation.message import Message, Role
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import SpecialToken

# DeepSeek's own words (spec/recipe_literals.json, "effort" of V4).
EFFORT = {
    Thinking.NONE: "",
    Thinking.HIGH: (
        "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
        "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root "
        "cause, rigorously stress-testing your logic against all potential paths, edge cases, and adversarial "
        "scenarios.\n"
        "Explicitly write out your entire deliberation process, documenting every intermediate step, considered "
        "alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n"
    ),
    Thinking.MAX: (
        "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
        "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively "
        "decompose the problem into its most fundamental components, trace every causal chain to its root, and "
        "resolve the underlying cause rather than any surface symptom.\n"
        "Do not stop reasoning until you have independently verified the solution from multiple angles and are "
        "certain that no assumption remains unchecked and no error remains undiscovered.\n\n"
    ),
}


def render_chat(messages: Iterable[Message], thinking: Thinking) -> list[Segment]:
    """The whole prompt, up to where the model's answer begins."""
    messages = list(messages)
    system = "\n\n".join(m.content for m in messages if m.role is Role.SYSTEM and m.content)
    segments = opening(system, thinking)
    for message in _merge_users([m for m in messages if m.role is not Role.SYSTEM]):
        segments += user_turn(message.content) if message.role is Role.USER else past_answer(message.content)
    return segments + answer_start(thinking)


def opening(system: str, thinking: Thinking) -> list[Segment]:
    """What stands before the first turn; an empty `system` adds nothing."""
    return [Control(SpecialToken.BOS), Text(EFFORT[thinking] + system)]


def user_turn(text: str) -> list[Segment]:
    """What the user says."""
    return [Control(SpecialToken.USER), Text(text)]


def answer_start(thinking: Thinking) -> list[Segment]:
    """Where the model takes over: inside a thought, or with thinking already closed."""
    opener = SpecialToken.THINK_CLOSE if thinking is Thinking.NONE else SpecialToken.THINK_OPEN
    return [Control(SpecialToken.ASSISTANT), Control(opener)]


def past_answer(text: str) -> list[Segment]:
    """An earlier answer, without its thoughts."""
    closed = Control(SpecialToken.THINK_CLOSE)
    return [Control(SpecialToken.ASSISTANT), closed, Text(text), Control(SpecialToken.EOS)]


def _merge_users(messages: Sequence[Message]) -> list[Message]:
    """Neighbouring user messages become one, with an empty line between where both say something."""
    merged: list[Message] = []
    for message in messages:
        if merged and message.role is Role.USER and merged[-1].role is Role.USER:
            earlier = merged.pop().content
            joint = "\n\n" if earlier and message.content else ""
            message = Message(Role.USER, earlier + joint + message.content)
        merged.append(message)
    return merged
