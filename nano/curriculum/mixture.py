"""How much of what: the kinds of training documents, their shares of tokens, and one document of a kind.

`longest_text`: sentences of filler in a retrieval text at most; a curriculum lets it grow.
"""

import math
from collections.abc import Callable
from random import Random

from nano.curriculum.arithmetic import arithmetic, two_digit_addition
from nano.curriculum.conversation import Conversation, Message, said
from nano.curriculum.copying import copying
from nano.curriculum.drills import drill
from nano.curriculum.facts import fact
from nano.curriculum.rendering import present
from nano.curriculum.retrieval import retrieval, retrieval_session
from nano.curriculum.small_talk import small_talk
from nano.curriculum.structured import json_object
from nano.curriculum.texts import long_system_text, system_text
from nano.curriculum.tool_sessions import choice_session, parallel_session, tool_session, tool_turn
from nano.curriculum.values import one_of

SHARES = {  # of the tokens of all rows
    "tool session": 18.0,
    "long tool session": 3.0,
    "tool turn": 10.0,
    "choice session": 16.0,
    "parallel session": 12.0,
    "needle session": 28.0,
    "retrieval session": 10.0,
    "recital": 8.0,
    "drill": 5.0,
    "plain session": 5.0,
    "plain": 3.0,
}
BEGINNINGS = {"choice session": 4.0}  # how much more than others the first tokens of its answers weigh


def tool_session_document(rng: Random, longest_text: float) -> Conversation:
    conversation = tool_session(rng, rng.randint(3, 10), rng.choice([1, 2, 2, 3, 3, 4, 4, 5, 6, 8]))
    conversation.omits_instructions = rng.random() < 0.2
    return present(rng, conversation)


def long_tool_session_document(rng: Random, longest_text: float) -> Conversation:
    tools = rng.choice([3, 4, 5, 6, 8])
    return present(rng, tool_session(rng, rng.randint(2, 6), tools, long_system=rng.random() < 0.6))


def choice_session_document(rng: Random, longest_text: float) -> Conversation:
    conversation = choice_session(rng)
    conversation.omits_instructions = rng.random() < 0.6
    return present(rng, conversation)


def parallel_session_document(rng: Random, longest_text: float) -> Conversation:
    conversation = parallel_session(rng, rng.randint(2, 5), rng.choice([1, 2, 2, 3, 3, 4, 5]))
    conversation.omits_instructions = rng.random() < 0.2
    return present(rng, conversation)


def tool_turn_document(rng: Random, longest_text: float) -> Conversation:
    conversation = tool_turn(rng, many_tools=rng.random() < 0.4, long_system=0.06)
    conversation.omits_instructions = rng.random() < 0.25
    return present(rng, conversation)


def retrieval_session_document(rng: Random, longest_text: float) -> Conversation:
    sentences = int(2 ** rng.uniform(1, math.log2(max(3.0, longest_text))))
    facts = int(2 ** rng.uniform(3, 5.6)) if rng.random() < 0.65 else int(2 ** rng.uniform(0, 3.5))
    questions = max(1, min(24, int(facts * rng.uniform(0.5, 1.1)) + 1))
    return present(rng, retrieval_session(rng, sentences, facts, questions), thinking=0.15, plain_effort=0.2)


def needle_session_document(rng: Random, longest_text: float) -> Conversation:
    """Few facts in much filler, each asked for once or twice: easier than one of many, and what is evaluated."""
    sentences = int(rng.uniform(6, max(8.0, longest_text)))
    facts = rng.choice([1, 1, 2, 2, 3, 3, 4, 4, 5, 6])
    questions = facts + rng.randint(0, facts)
    return present(rng, retrieval_session(rng, sentences, facts, questions), thinking=0.2, plain_effort=0.2)


def drill_document(rng: Random, longest_text: float) -> Conversation:
    conversation = drill(rng)
    conversation.omits_instructions = rng.random() < 0.5
    return present(rng, conversation, thinking=0.2, plain_effort=0.0)


def plain_session_document(rng: Random, longest_text: float) -> Conversation:
    """Two to twelve short turns without tools."""
    makers = [small_talk, fact, arithmetic, copying, json_object, two_digit_addition]
    system = system_text(rng, 0.03)
    messages = [] if system is None else [Message("system", system)]
    for _ in range(rng.randint(2, 12)):
        messages += said(one_of(rng, makers, [10, 22, 16, 26, 8, 18]))
    return present(rng, Conversation(messages), thinking=0.3)


def plain_document(rng: Random, longest_text: float) -> Conversation:
    """One question, seldom after others or after a long system message; JSON answers sometimes under a schema."""
    if rng.random() < 0.1:
        return present(rng, retrieval(rng, int(2 ** rng.uniform(1, 6))))
    exchange = one_of(rng, [small_talk, fact, arithmetic, copying, json_object], [6, 16, 26, 20, 10])
    system = system_text(rng, 0.04)
    messages = [] if system is None else [Message("system", system)]
    if rng.random() < 0.2:
        for _ in range(rng.randint(1, 3)):
            messages += said(one_of(rng, [small_talk, fact, arithmetic, copying]))
    conversation = Conversation([*messages, *said(exchange)])
    if hasattr(exchange, "schema"):
        chance = rng.random()
        conversation.is_json = chance < 0.4
        conversation.answer_schema = exchange.schema() if 0.4 <= chance < 0.58 else None
    if rng.random() < 0.02:
        conversation.with_system(long_system_text(rng, 40, 160))
    return present(rng, conversation)


DOCUMENTS: dict[str, Callable[[Random, float], Conversation]] = {
    "tool session": tool_session_document,
    "long tool session": long_tool_session_document,
    "tool turn": tool_turn_document,
    "choice session": choice_session_document,
    "parallel session": parallel_session_document,
    "needle session": needle_session_document,
    "retrieval session": retrieval_session_document,
    "drill": drill_document,
    "plain session": plain_session_document,
    "plain": plain_document,
}  # a recital is no conversation: rows.py makes it
