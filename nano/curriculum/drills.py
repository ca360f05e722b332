"""Drills: dense practice of single skills, never asked for in evaluation in this form."""

import math
from dataclasses import dataclass
from random import Random

from nano.curriculum.arithmetic import arithmetic
from nano.curriculum.conversation import Conversation, Message
from nano.curriculum.retrieval import CITY, CODE, THING, look_up_drill, look_up_session
from nano.curriculum.texts import sentence
from nano.curriculum.tool_sessions import many_calls
from nano.curriculum.values import Maker, digits, identifier, invented, one_of, text_value, word, words
from nano.curriculum.words import ADJECTIVES, CITIES, FIRST_NAMES, NOUNS

_DO_IT = "I will do it."


@dataclass(frozen=True)
class Recital:
    """Facts, then the same facts in another order. `spans`: the characters of the answer that are trained on."""

    prompt: Conversation  # its answer is empty
    answer: str
    spans: tuple[tuple[int, int], ...]


def recital(rng: Random, most_facts: int) -> Recital:
    """Only the values are trained: each is a pure look-up by what stands before it, anywhere in the text."""
    count = int(2 ** rng.uniform(3, math.log2(most_facts)))
    lines, known, form, between = (_sentences if rng.random() < 0.55 else _table)(rng, count)
    asked = rng.choice(["Again in another order.", "Say it all again.", "List them.", "Tell me all."])
    before, middle, after = form.replace("{0}", "\0").replace("{1}", "\0").split("\0")
    answer, spans = "", []
    for name, value in rng.sample(known, len(known)):
        answer += before + name + middle
        start = len(answer.rstrip(" "))  # a token may begin with the space
        spans.append((start, len(answer) + len(value)))
        answer += value + after + between
    prompt = Conversation([Message("user", f"{lines}\n\n{asked}"), Message("assistant", "")])
    return Recital(prompt, answer, tuple(spans))


def _sentences(rng: Random, count: int) -> tuple[str, list[tuple[str, str]], str, str]:
    kind = rng.choice([CODE, CODE, CODE, CITY, THING])
    form = rng.choice(kind.stated)
    known: list[tuple[str, str]] = []
    for name in rng.sample(FIRST_NAMES, min(count, len(FIRST_NAMES))):
        is_short = kind is CODE and rng.random() < 0.3
        known.append((name, digits(rng, rng.randint(1, 3)) if is_short else kind.value(rng)))
    parts = [form.format(*pair) for pair in known]
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 2 + count // 2)):
            parts.insert(rng.randint(0, len(parts)), sentence(rng))
    return " ".join(parts), known, kind.answered, "\n"


def _table(rng: Random, count: int) -> tuple[str, list[tuple[str, str]], str, str]:
    key: Maker[str] = rng.choice(
        [lambda r: r.choice(FIRST_NAMES), lambda r: r.choice(NOUNS), lambda r: r.choice(NOUNS), invented, identifier]
    )
    width = rng.randint(1, 4)
    value: Maker[str] = rng.choice(
        [
            lambda r: digits(r, width),
            lambda r: digits(r, width),
            lambda r: r.choice(NOUNS),
            lambda r: r.choice(ADJECTIVES),
            lambda r: r.choice(CITIES),
        ]
    )
    table: dict[str, str] = {}
    for _ in range(count):
        table[key(rng)] = value(rng)
    form, between = rng.choice(["{0} = {1}", "{0}: {1}", "{0} is {1}", "{0} {1}"]), rng.choice(["\n", "\n", ", "])
    return between.join(form.format(*pair) for pair in table.items()), list(table.items()), form, between


def drill(rng: Random) -> Conversation:
    """Any other drill."""
    makers = [_repeated_words, _repeated_strings, _several_sums, _as_parameters, look_up_drill, look_up_session]
    return one_of(rng, [*makers, many_calls], [4, 4, 8, 4, 6, 4, 30])


def _practice(question: str, answer: str) -> Conversation:
    return Conversation([Message("user", question), Message("assistant", answer, _DO_IT)])


def _repeated_words(rng: Random) -> Conversation:
    text = words(rng, 10, 30) if rng.random() < 0.5 else " ".join(sentence(rng) for _ in range(rng.randint(1, 3)))
    return _practice(rng.choice(["Repeat: ", "Repeat after me: ", "Copy this exactly: ", "Say: "]) + text, text)


def _repeated_strings(rng: Random) -> Conversation:
    text = " ".join(text_value(rng) for _ in range(rng.randint(4, 10)))
    return _practice(rng.choice(["Repeat: ", "Echo this text: ", "Say: "]) + text, text)


def _several_sums(rng: Random) -> Conversation:
    shows_steps = rng.random() < 0.5
    sums = [arithmetic(rng, rng.choice("+++-*"), rng.choice([1, 2, 2, 2, None])) for _ in range(rng.randint(3, 7))]
    ask = rng.choice(["Compute these:\n", "Solve:\n", "Calculate: "])
    listed = ("\n" if ask.endswith("\n") else ", ").join(item.answer.split(" = ")[0] for item in sums)
    answer = "\n".join(f"{item.thought} {item.answer}" if shows_steps else item.answer for item in sums)
    return _practice(ask + listed + ("\nShow the steps." if shows_steps else ""), answer)


def _as_parameters(rng: Random) -> Conversation:
    pairs = {invented(rng): rng.choice([text_value, word])(rng) for _ in range(rng.randint(2, 5))}
    ask = "Write as parameters: " + ", ".join(f"{name} = {value}" for name, value in pairs.items())
    return _practice(ask, "\n".join(f'name="{name}" string="true">{value}<' for name, value in pairs.items()))
