"""Repeating, reversing, counting, listing: answers that are made of the question's own words."""

from random import Random

from nano.curriculum.texts import Exchange, sentence
from nano.curriculum.values import Maker, command, digits, one_of, path, text_value, word, words


def _something(rng: Random) -> str:
    makers: list[Maker[str]] = [
        lambda r: words(r, 1, 8),
        text_value,
        sentence,
        lambda r: " ".join(text_value(r) for _ in range(r.randint(2, 3))),
        path,
        command,
        lambda r: digits(r, r.randint(3, 8)),
    ]
    return one_of(rng, makers)


def repetition(rng: Random) -> Exchange:
    text = _something(rng)
    question = rng.choice(
        [
            f"Repeat: {text}",
            f"Repeat after me: {text}",
            f'Say "{text}"',
            f"Echo this text: {text}",
            f"Copy this exactly: {text}",
            f"Please repeat the following: {text}",
            f"Reply with exactly: {text}",
            f"Say: {text}",
        ]
    )
    return Exchange(question, text, "I will repeat the text.")


def reversal(rng: Random) -> Exchange:
    some = [word(rng) for _ in range(rng.randint(2, 5))]
    ask = rng.choice(["Reverse the words: ", "Reverse the order of these words: ", "Write these words backwards: "])
    return Exchange(ask + " ".join(some), " ".join(reversed(some)), "I will reverse the words.")


def counting(rng: Random) -> Exchange:
    if rng.random() < 0.5:
        first = rng.randint(0, 20)
        last = first + rng.randint(1, 9)
        ask = [f"List the numbers from {first} to {last}.", f"Count from {first} to {last}."]
        ask.append(f"Count from {first} to {last}")
    else:
        first, last = 1, rng.randint(2, 12)
        ask = [f"Count to {last}.", f"count to {last}", f"Please count up to {last}"]
    return Exchange(rng.choice(ask), ", ".join(map(str, range(first, last + 1))), "I will count.")


def about_words(rng: Random) -> Exchange:
    """First word, last word, how many, as a list, joined by commas."""
    some = [word(rng) for _ in range(rng.randint(2, 6))]
    text = " ".join(some)
    match rng.randrange(5):
        case 0:
            ask = [f"What is the first word of: {text}", f'First word of "{text}"?']
            return Exchange(rng.choice(ask), some[0], "I look at the first word.")
        case 1:
            ask = [f"What is the last word of: {text}", f'Last word of "{text}"?']
            return Exchange(rng.choice(ask), some[-1], "I look at the last word.")
        case 2:
            ask = [f"How many words are in: {text}", f"Count the words: {text}"]
            return Exchange(rng.choice(ask), f"There are {len(some)} words.", "I count the words.")
        case 3:
            ask = [f"Make a list of: {', '.join(some)}", f"Write a bullet list: {', '.join(some)}"]
            return Exchange(rng.choice(ask), "\n".join(f"- {item}" for item in some), "I will write a list.")
        case _:
            ask = [f"Join with commas: {text}", f"Put commas between these words: {text}"]
            return Exchange(rng.choice(ask), ", ".join(some), "I will add commas.")


def copying(rng: Random) -> Exchange:
    """Any of the above."""
    return one_of(rng, [repetition, reversal, counting, about_words], [4, 1, 2, 5])
