"""What a conversation is made of, and filler: sentences that mean nothing and stand between what matters."""

from dataclasses import dataclass
from random import Random

from nano.curriculum.values import Maker, one_of
from nano.curriculum.words import ADJECTIVES, CITIES, FIRST_NAMES, NOUNS, VERBS


@dataclass(frozen=True)
class Exchange:
    """A question, the one right answer, and the thought before it in thinking mode."""

    question: str
    answer: str
    thought: str


_SENTENCES: list[Maker[str]] = [
    lambda r: f"The {r.choice(ADJECTIVES)} {r.choice(NOUNS)} is near the {r.choice(NOUNS)}.",
    lambda r: f"Always {r.choice(VERBS)} the {r.choice(NOUNS)} before you {r.choice(VERBS)} the {r.choice(NOUNS)}.",
    lambda r: f"Never {r.choice(VERBS)} a {r.choice(ADJECTIVES)} {r.choice(NOUNS)} unless the user asks for it.",
    lambda r: (
        f"Some {r.choice(NOUNS)}s are {r.choice(ADJECTIVES)}, but most {r.choice(NOUNS)}s are {r.choice(ADJECTIVES)}."
    ),
    lambda r: f"{r.choice(FIRST_NAMES)} put the {r.choice(ADJECTIVES)} {r.choice(NOUNS)} under the {r.choice(NOUNS)}.",
    lambda r: f"If the {r.choice(NOUNS)} is {r.choice(ADJECTIVES)}, {r.choice(VERBS)} the {r.choice(NOUNS)} first.",
    lambda r: (
        f"In {r.choice(CITIES)} the {r.choice(NOUNS)} was {r.choice(ADJECTIVES)}"
        f" and the {r.choice(NOUNS)} was {r.choice(ADJECTIVES)}."
    ),
    lambda r: f"You should {r.choice(VERBS)} and {r.choice(VERBS)} every {r.choice(NOUNS)} with care.",
    lambda r: f"There were {r.randint(2, 99)} {r.choice(NOUNS)}s in the {r.choice(ADJECTIVES)} {r.choice(NOUNS)}.",
    lambda r: (
        f"A {r.choice(NOUNS)} can {r.choice(VERBS)} when the {r.choice(NOUNS)} is {r.choice(ADJECTIVES)};"
        f" do not {r.choice(VERBS)} it."
    ),
]


def sentence(rng: Random) -> str:
    return one_of(rng, _SENTENCES)


def filler(rng: Random, sentences: int, *, has_markup: bool = False) -> str:
    """So many sentences; with markup, some are list items and headings stand between them."""
    parts: list[str] = []
    while len(parts) < sentences:
        if has_markup and rng.random() < 0.12:
            title = f"{rng.choice(NOUNS).title()} {rng.choice(NOUNS)}"
            parts.append(f"\n\n{'#' * rng.randint(1, 3)} {title}\n")
        elif has_markup and rng.random() < 0.3:
            parts.append(f"\n- {sentence(rng)}")
        elif rng.random() < 0.08:
            parts.append(f"{sentence(rng)}\n\n")
        else:
            parts.append(sentence(rng))
    return " ".join(parts).replace(" \n", "\n").replace("\n ", "\n")


_SHORT_SYSTEM = [
    "You are a helpful assistant.",
    "You are a helpful assistant",
    "You are a coding agent. Be concise.",
    "Be brief.",
    "You are an assistant that answers in one sentence.",
    "You are a friendly helper.",
    "Answer the user's question.",
    "You are an AI assistant running on the user's computer.",
    "You are a careful agent. Use tools when needed.",
    "Today is a good day. Help the user.",
    "You are a command line assistant.",
]
_LONG_OPENINGS = [
    "You are an interactive agent that helps users with tasks.\n\n",
    "You are a helpful assistant. Follow these rules.\n\n",
    "You are a coding agent.\n\n",
    "# Instructions\n\n",
]


def system_text(rng: Random, long_share: float = 0.0) -> str | None:
    """A system message or, half the time, none."""
    if rng.random() < long_share:
        return long_system_text(rng, 20, 60)
    if rng.random() < 0.5:
        return None
    if rng.random() < 0.75:
        return rng.choice(_SHORT_SYSTEM)
    return " ".join(sentence(rng) for _ in range(rng.randint(1, 3)))


def long_system_text(rng: Random, least: int, most: int) -> str:
    """Pages of rules that have nothing to do with what will be asked."""
    return rng.choice(_LONG_OPENINGS) + filler(rng, rng.randint(least, most), has_markup=True)
