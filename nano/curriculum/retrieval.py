"""Facts hidden in filler, asked for once or many times: finding things far behind the attention window.

Codes, cities and belongings, in the sentence forms of the evaluation. A session asks many questions about one text, so
that most of a row's tokens teach.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from nano.curriculum.conversation import Conversation, Message
from nano.curriculum.texts import Exchange, sentence, system_text
from nano.curriculum.values import SMALL, Maker, characters, digits, identifier, invented, one_of, word
from nano.curriculum.words import ADJECTIVES, CITIES, FIRST_NAMES, NOUNS


@dataclass(frozen=True)
class FactKind:
    """How a fact stands in the text, how it is asked for and answered; {0} is the name, {1} the value."""

    stated: tuple[str, ...]
    asked: tuple[str, ...]
    answered: str
    listed: str
    value: Maker[str]


CODE = FactKind(
    (
        "The code for {0} is {1}.",
        "The code for {0} is {1}.",
        "Remember: the code for {0} is {1}.",
        "the code for {0} is {1}.",
    ),
    ("What is the code for {0}?", "Tell me the code for {0}.", "What code does {0} have?", "code for {0}?"),
    "The code for {0} is {1}.",
    "List all codes for ",
    lambda r: digits(r, 4),
)
CITY = FactKind(
    ("{0} lives in {1}.",),
    ("Where does {0} live?", "In which city does {0} live?"),
    "{0} lives in {1}.",
    "Where do they live: ",
    lambda r: r.choice(CITIES),
)
THING = FactKind(
    ("{0} owns the {1}.",),
    ("What does {0} own?", "Which thing does {0} own?"),
    "{0} owns the {1}.",
    "What do they own: ",
    lambda r: f"{r.choice(ADJECTIVES)} {r.choice(NOUNS)}",
)


@dataclass(frozen=True)
class Fact:
    """One fact of a text."""

    kind: FactKind
    name: str
    value: str

    def stated(self, form: str) -> str:
        return form.format(self.name, self.value)

    @property
    def answer(self) -> str:
        return self.kind.answered.format(self.name, self.value)


def retrieval(rng: Random, sentences: int) -> Conversation:
    """One question about one to four facts in so much filler: the form of the evaluation."""
    kind = rng.choice([CODE, CODE, CODE, CITY, THING])
    return _asked(rng, sentences, _facts(rng, [kind], rng.randint(1, 4 if sentences > 3 else 2)), questions=1)


def retrieval_session(rng: Random, sentences: int, facts: int, questions: int) -> Conversation:
    """Many questions about one text; some ask for several facts at once."""
    kinds = rng.choice([[CODE], [CODE], [CITY], [THING], [CODE, CITY, THING], [CODE, THING]])
    return _asked(rng, sentences, _facts(rng, kinds, max(1, facts // len(kinds))), questions)


def _facts(rng: Random, kinds: list[FactKind], count: int) -> list[Fact]:
    known: list[Fact] = []
    for kind in kinds:
        names = rng.sample(FIRST_NAMES, min(count, len(FIRST_NAMES)))
        names += [invented(rng).title() for _ in range(count - len(names))]
        known += [Fact(kind, name, kind.value(rng)) for name in names]
    return known


def _text(rng: Random, sentences: int, known: list[Fact]) -> str:
    parts = [sentence(rng) for _ in range(sentences)]
    one_form = {fact.kind: rng.choice(fact.kind.stated) if rng.random() < 0.7 else None for fact in known}
    for fact in known:
        form = one_form[fact.kind] or rng.choice(fact.kind.stated)
        parts.insert(rng.randint(0, len(parts)), fact.stated(form))
    text = " ".join(parts)
    return text.replace(". ", ".\n") if rng.random() < 0.2 else text


def _questions(rng: Random, known: list[Fact], count: int) -> Iterator[Exchange]:
    """So many questions; no fact is asked for again before all were."""
    deck: list[Fact] = []
    for _ in range(count):
        deck = deck or rng.sample(known, len(known))
        if count > 2 and len(deck) > 3 and rng.random() < 0.25:
            kind = deck[-1].kind
            some = [fact for fact in deck if fact.kind is kind][: rng.randint(2, 6)]
            deck = [fact for fact in deck if fact not in some]
            names = ", ".join(fact.name for fact in some)
            yield Exchange(kind.listed + names, "\n".join(fact.answer for fact in some), "I will do it.")
        else:
            fact = deck.pop()
            asked = rng.choice(fact.kind.asked).format(fact.name)
            yield Exchange(asked, fact.answer, f"I look for {fact.name} in the text.")


def _asked(rng: Random, sentences: int, known: list[Fact], questions: int) -> Conversation:
    text = _text(rng, sentences, known)
    asked = list(_questions(rng, known, questions))
    system = system_text(rng) if rng.random() < 0.5 else None
    first = asked[0].question
    if rng.random() < 0.12:
        system = text
    else:
        usual = f"{text}\n\n{first}"
        others = [f"Read this text:\n{text}\n\nQuestion: {first}", f"{first}\n\n{text}", f"{text} {first}"]
        first = rng.choice([usual, *others]) if rng.random() < 0.5 else usual
    messages = [] if system is None else [Message("system", system)]
    for question, exchange in zip([first, *(item.question for item in asked[1:])], asked, strict=True):
        messages += [Message("user", question), Message("assistant", exchange.answer, exchange.thought)]
    return Conversation(messages)


def look_up_session(rng: Random) -> Conversation:
    """Lines of keys and values, then several look-ups per turn."""
    key = rng.choice([lambda r: r.choice(FIRST_NAMES), invented, lambda r: r.choice(NOUNS), identifier])
    makers: list[Maker[str]] = [lambda r: digits(r, 4), lambda r: digits(r, 3), word, invented]
    value = rng.choice([*makers, lambda r: characters(r, SMALL, 3, 6)])
    table = {key(rng): value(rng) for _ in range(int(2 ** rng.uniform(3, 6.3)))}
    between, after = rng.choice([" = ", ": ", " is ", " -> "]), rng.choice(["\n", "\n", ", ", "; "])
    lines = after.join(f"{name}{between}{held}" for name, held in table.items())
    messages: list[Message] = []
    for turn in range(rng.randint(2, 6)):
        wanted = rng.sample(list(table), min(len(table), rng.randint(2, 8)))
        ask = f"Give me {', '.join(wanted)}"
        messages.append(Message("user", ask if turn else f"{lines}\n\n{ask}"))
        found = "\n".join(f"{name} = {table[name]}" for name in wanted)
        messages.append(Message("assistant", found, "I will do it."))
    return Conversation(messages)


def look_up_drill(rng: Random) -> Conversation:
    """A few facts, filler of any length among them, one list of answers."""
    kind = one_of(rng, [lambda _: CODE, lambda _: CITY, lambda _: THING], [2, 1, 1])
    known = _facts(rng, [kind], rng.randint(3, 7))
    parts = [fact.stated(kind.stated[0]) for fact in known]
    parts += [sentence(rng) for _ in range(int(2 ** rng.uniform(0, 5.6)))]
    rng.shuffle(parts)
    rng.shuffle(known)
    ask = f"{' '.join(parts)}\n\n{kind.listed}{', '.join(fact.name for fact in known)}"
    return Conversation(
        [Message("user", ask), Message("assistant", "\n".join(f.answer for f in known), "I will do it.")]
    )
