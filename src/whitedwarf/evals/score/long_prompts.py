"""Long prompts of our own, made by rule: a ledger, minutes, a log, a program, records as JSON, a catalogue.

Each is a few thousand tokens of material that nobody has read before, with a question at its end whose answer stands
somewhere in it. The same in every run: no random numbers, only remainders.
"""

import json
from collections.abc import Iterator


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


_PEOPLE = _words(
    "Amara, Bruno, Chioma, Dmitri, Esther, Farid, Greta, Hiroshi, Ines, Jonas, Kavita, Lucia, Mateo, Nadia"
)
_PLACES = _words("the harbour, the east depot, the mill, the orchard, the archive, the chapel, the ferry, the quarry")
_GOODS = _words("copper wire, oat flour, lamp oil, slate tiles, linen, dried plums, iron nails, beeswax, cedar planks")
_VERBS = _words("asked about, promised, objected to, measured, postponed, paid for, sketched, counted")
_UNITS = _words("crates, barrels, sacks, bundles, coils")
_SERVICES = _words("gateway, billing, search, mailer, thumbnails, scheduler")
_SIZES = _words("small, tall, dark, round, bright")
_MANNERS = _words("touch nothing, open one drawer, copy the map, sit down")


def long_prompts() -> Iterator[tuple[str, str]]:
    """Ids and texts."""
    yield "long-ledger", _ledger()
    yield "long-minutes", _minutes()
    yield "long-log", _log()
    yield "long-program", _program()
    yield "long-records", _records()
    yield "long-catalogue", _catalogue()


def _pick(words: tuple[str, ...], number: int) -> str:
    return words[number % len(words)]


def _asked(about: str, parts: list[str], question: str, between: str = "\n") -> str:
    return f"{about}\n\n{between.join(parts)}\n\n{question}"


def _ledger() -> str:
    lines = [
        f"{1 + i % 28:02d}.{1 + i // 12:02d}. {_pick(_PEOPLE, i * 5 + i // 5)} brought {3 + i * 13 % 41} "
        f"{_pick(_UNITS, i * 3)} of {_pick(_GOODS, i * 11 + 2)} to {_pick(_PLACES, i * 5 + i // 9)}, "
        f"paid {120 + i * 37 % 615} marks."
        for i in range(96)
    ]
    lines[61] = "06.06. Tomas brought 9 baskets of saffron to the lighthouse, paid 4000 marks."
    return _asked("A trading house's ledger:", lines, "Who brought saffron, where to, and for how much?")


def _minutes() -> str:
    parts = [
        f"{i + 1}. {_pick(_PEOPLE, i * 3)} {_pick(_VERBS, i * 5)} the {_pick(_GOODS, i * 7)} at "
        f"{_pick(_PLACES, i * 3 + 1)}. {_pick(_PEOPLE, i * 5 + 4)} answered that this would take {2 + i * 7 % 23} days "
        f"and that {_pick(_PEOPLE, i * 11 + 2)} should be told beforehand. It was agreed to come back to it in week "
        f"{10 + i * 3 % 40}."
        for i in range(48)
    ]
    parts[33] += " The password for the boathouse was changed to 'quiet-otter-19'; only Ines writes it down."
    return _asked("Minutes of a long meeting:", parts, "What is the boathouse's new password? Who writes it down?")


def _log() -> str:
    lines = [
        f"2031-04-{1 + i // 24:02d}T{i % 24:02d}:{i * 17 % 60:02d}:{i * 29 % 60:02d}Z "
        f"{'WARN' if i % 11 == 3 else 'INFO'} {_pick(_SERVICES, i * 5 + i // 7)}[{2000 + i * 61 % 900}]: request "
        f"{i * 7919 % 100003:05d} took {3 + i * 53 % 480} ms"
        for i in range(84)
    ]
    lines[47] = "2031-04-02T23:19:43Z ERROR billing[2867]: disk /var/lib/billing is full, giving up after 3 tries"
    return _asked("The log of a small installation:", lines, "Which service failed, and why? Answer in one sentence.")


def _program() -> str:
    functions = [
        f"def step_{i}(values):\n"
        f"    # add {i * 3 + 1}, keep what is below {500 + i * 17}\n"
        f"    moved = [value + {i * 3 + 1} for value in values]\n"
        f"    return [value for value in moved if value < {500 + i * 17}]\n"
        for i in range(34)
    ]
    functions[21] = functions[21].replace("value + 64", "value - 64")
    calls = "".join(f"    values = step_{i}(values)\n" for i in range(34))
    program = [*functions, f"def main(values):\n{calls}    return values\n```"]
    return _asked(
        "```python", program, "One of these functions does not do what its comment says. What is wrong?", "\n\n"
    )


def _records() -> str:
    records = [
        {
            "id": 1000 + i * 7,
            "owner": _pick(_PEOPLE, i * 3 + i // 4),
            "item": _pick(_GOODS, i * 7 + 1),
            "count": 1 + i * 19 % 57,
            "place": _pick(_PLACES, i * 5),
            "is_paid": i % 3 != 1,
        }
        for i in range(60)
    ]
    records[38] |= {"item": "barometer", "count": 2, "owner": "Zofia"}
    lines = [json.dumps(record) for record in records]
    return _asked("Records:", lines, "Give the record of the barometer as JSON, with all its members, nothing else.")


def _catalogue() -> str:
    parts = [
        f"Room {i + 1}. A {_pick(_SIZES, i * 2)} room beside {_pick(_PLACES, i * 3)}. On the left stands a chest with "
        f"{2 + i * 5 % 17} drawers that {_pick(_PEOPLE, i * 5)} made of {_pick(_GOODS, i * 2)}; on the right hangs "
        f"a map, drawn in {1640 + i * 11} and bought by {_pick(_PEOPLE, i * 13 + 5)} for {15 + i * 23 % 260} crowns. "
        f"Visitors may {_pick(_MANNERS, i)} here."
        for i in range(38)
    ]
    question = "In which rooms may visitors copy the map? List the numbers."
    return _asked("The catalogue of a museum:", parts, question, "\n\n")
