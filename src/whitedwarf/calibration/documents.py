"""Structured texts - JSON, CSV, YAML, TOML, logs - and long ones with something hidden in them."""

import json
from collections.abc import Callable
from typing import NamedTuple

from whitedwarf.calibration.code_samples import sample
from whitedwarf.calibration.dice import Dice
from whitedwarf.calibration.languages import passage
from whitedwarf.calibration.words import (
    ADJECTIVES,
    NOUNS,
    PEOPLE,
    PLACES,
    TOPICS,
    VERBS,
    date,
    indefinite,
    moments,
    noun_phrase,
)
from whitedwarf.conversation.json_value import Json


class Task(NamedTuple):
    """What is asked, what one thinks, what is answered."""

    question: str
    thought: str
    answer: str


Rows = list[dict[str, Json]]


def table(dice: Dice, count: int) -> Rows:
    """Rows with the same five fields."""
    kind = dice.pick(NOUNS)
    return [
        {
            "id": dice.between(1000, 99999),
            "name": f"{dice.pick(ADJECTIVES)} {kind}",
            "owner": dice.pick(PEOPLE),
            "city": dice.pick(PLACES),
            "amount": dice.between(100, 99999) / 100,
            "active": dice.chance(70),
        }
        for _ in range(count)
    ]


def structured(dice: Dice) -> Task:
    """Something with JSON in it."""
    kinds: tuple[Callable[[Dice], Task], ...] = (_extract, _convert, _schema, _filter, _repair)
    return dice.pick(kinds)(dice)


def _extract(dice: Dice) -> Task:
    rows = table(dice, dice.between(1, 4))
    prose = " ".join(
        f"{row['owner']} in {row['city']} looks after the {row['name']} with number {row['id']}, worth "
        f"{row['amount']} euros; "
        f"it is {'still in use' if row['active'] else 'no longer in use'}."
        for row in rows
    )
    question = (
        "Read the text and give me a JSON array of objects with the members id, name, owner, city, amount and active. "
        f"Answer with JSON only.\n\n{prose}"
    )
    return Task(question, f"There are {len(rows)} entries. I keep the order of the text.", _json(rows))


def _convert(dice: Dice) -> Task:
    rows = table(dice, dice.between(3, 12))
    header = ",".join(rows[0])
    csv = "\n".join([header, *(",".join(_plain(value) for value in row.values()) for row in rows)])
    yaml = "\n".join(
        "\n".join(("- " if first else "  ") + f"{key}: {_plain(value)}" for first, (key, value) in _firsts(row))
        for row in rows
    )
    toml = "\n\n".join(
        "[[entry]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in row.items()) for row in rows
    )
    forms = {"CSV": csv, "YAML": yaml, "TOML": toml, "JSON": _json(rows)}
    source, target = dice.some(tuple(forms), 2)
    question = f"Convert this {source} to {target}.\n\n```{source.lower()}\n{forms[source]}\n```"
    return Task(
        question,
        f"{len(rows)} records with {len(rows[0])} fields each; the types stay.",
        f"```{target.lower()}\n{forms[target]}\n```",
    )


def _schema(dice: Dice) -> Task:
    row = table(dice, 1)[0]
    types = {str: "string", bool: "boolean", int: "integer", float: "number"}
    schema: Json = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {key: {"type": types[type(value)]} for key, value in row.items()},
        "required": list(row),
        "additionalProperties": False,
    }
    question = f"Write a JSON Schema for documents like this one; all members are required:\n\n{_json(row)}"
    return Task(question, "One property for each member, by the type of its value.", f"```json\n{_json(schema)}\n```")


def _filter(dice: Dice) -> Task:
    rows = table(dice, dice.between(5, 14))
    limit = dice.between(100, 800)
    kept = [row for row in rows if row["active"] and isinstance(row["amount"], float) and row["amount"] > limit]
    total = sum(round(row["amount"] * 100) for row in kept if isinstance(row["amount"], float)) / 100
    wish = f"Which active entries have an amount above {limit}? Give their ids and the total."
    question = f"{wish}\n\n```json\n{_json(rows)}\n```"
    thought = "\n".join(
        f"{row['id']}: {'active' if row['active'] else 'not active'}, {row['amount']}: {'yes' if row in kept else 'no'}"
        for row in rows
    )
    return Task(question, thought, _json({"ids": [row["id"] for row in kept], "total": total}))


def _repair(dice: Dice) -> Task:
    good = _json(table(dice, dice.between(1, 3)))
    lines = good.split("\n")
    at = next(n for n, line in enumerate(lines) if line.endswith(","))
    broken = "\n".join([*lines[:at], lines[at].removesuffix(","), *lines[at + 1 :]])
    question = f"My parser refuses this JSON. What is wrong, and what is right?\n\n```json\n{broken}\n```"
    thought = f"Line {at + 1} ends without a comma although another member follows."
    return Task(
        question, thought, f"A comma is missing at the end of line {at + 1}. Corrected:\n\n```json\n{good}\n```"
    )


def needle(dice: Dice) -> Task:
    """A long text in which a few facts are hidden, and a question for them."""
    paragraphs = [_paragraph(dice) for _ in range(dice.weighted({12: 4, 25: 4, 50: 2, 90: 1}))]
    facts = []
    for _ in range(dice.between(1, 4)):
        thing, code = noun_phrase(dice), f"{dice.pick(NOUNS).upper()}-{dice.digits(4)}"
        facts.append((thing, code))
        at = dice.below(len(paragraphs))
        paragraphs[at] = f"{paragraphs[at]} The code of the {thing} is {code}."
    body = "\n\n".join(paragraphs)
    wanted, code = dice.pick(facts)
    question = f"What is the code of the {wanted}?"
    text = (
        f"{body}\n\n{question}" if dice.chance(60) else f"{question} It is somewhere in the following text.\n\n{body}"
    )
    return Task(
        text, f"I look for the {wanted}: the text says that its code is {code}.", f"The code of the {wanted} is {code}."
    )


def _paragraph(dice: Dice) -> str:
    """Prose of some kind, code, a log, or rows."""
    kind = dice.weighted({"english": 5, "abroad": 2, "log": 1, "code": 1, "rows": 1, "about": 4})
    match kind:
        case "english":
            return passage(dice, dice.between(3, 9)).written("English")
        case "abroad":
            return passage(dice, dice.between(2, 6)).written(
                dice.pick(("German", "French", "Spanish", "Chinese", "Russian"))
            )
        case "log":
            return "\n".join(
                f"{at} {dice.pick(('INFO', 'DEBUG', 'WARN'))} {dice.pick(VERBS)} {dice.pick(NOUNS)} id={dice.hex(10)}"
                for at in moments(dice, dice.between(4, 14))
            )
        case "code":
            return sample(dice).code
        case "rows":
            return _json(table(dice, 2))
        case _:
            return about(dice, dice.pick(TOPICS))


def about(dice: Dice, topic: str, sentences: int = 5) -> str:
    """General remarks on a topic as one paragraph."""
    return " ".join(remarks(dice, topic, sentences))


def remarks(dice: Dice, topic: str, count: int) -> list[str]:
    """Different sentences on a topic."""
    noun, other, adjective = dice.pick(NOUNS), dice.pick(NOUNS), dice.pick(ADJECTIVES)
    year, share = dice.between(1780, 2020), dice.between(3, 97)
    forms = (
        f"Most people meet {topic} early in life without giving it a second thought.",
        f"A good way to understand {topic} is to begin with the {adjective} cases and to add the others one by one.",
        f"Around {year}, the first careful descriptions of {topic} appeared in print.",
        f"In a survey, {share} percent of those asked could explain {topic} in their own words.",
        f"The usual comparison is that of {indefinite(noun)} and its {other}: one carries, the other limits.",
        f"What makes {topic} difficult is that causes and effects lie far apart in time.",
        f"Three things matter here: how much there is, how fast it changes, and who pays for the {noun}.",
        f"Critics object that {topic} is often described as if it had nothing to do with the {other} around it.",
        f"Whoever wants to try it needs little more than {noun_phrase(dice)}, patience and a notebook.",
        f"Measurements are {adjective} at best, so results are given with their uncertainty.",
        f"For practical purposes it is enough to check the {noun} once a month and to write the date beside it, "
        f"such as {date(dice)}.",
        f"Two schools disagree about {topic}: one trusts the {noun}, the other the {other}, and both have figures.",
        f"{dice.pick(PEOPLE)} from {dice.pick(PLACES)} worked on {topic} for {dice.between(3, 40)} years.",
        f"It costs about {dice.between(2, 900)} euros a year, of which the {other} alone takes {share} percent.",
        f"First {dice.pick(VERBS)} the {noun}; only then does it make sense to {dice.pick(VERBS)} the {other}.",
        f"If something goes wrong with {topic}, it is nearly always the {noun}, and nearly always at the worst moment.",
        f"Children understand {topic} faster than adults, because they ask what the {adjective} {noun} is for.",
        f"Since {year} the rules have been changed {dice.between(2, 19)} times, mostly for {adjective} reasons.",
        f"No single number describes {topic}; one needs at least a mean, a spread and the story of the {other}.",
        f"There are exceptions, and they are instructive: where the {other} is missing, the whole effect disappears.",
    )
    return dice.some(forms, count)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _plain(value: Json) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _firsts(row: dict[str, Json]) -> list[tuple[bool, tuple[str, Json]]]:
    return [(number == 0, item) for number, item in enumerate(row.items())]
