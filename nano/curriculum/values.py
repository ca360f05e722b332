"""Small random values: words, names, numbers, paths, commands, addresses, identifiers.

Every function draws from the generator it is given and from nothing else, so a seed fixes a whole curriculum.
"""

import string
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from nano.curriculum.words import (
    ADJECTIVES,
    CITIES,
    FILE_ENDINGS,
    FIRST_NAMES,
    NOUNS,
    SYLLABLES,
    VERBS,
)

Made = TypeVar("Made")
Maker = Callable[[Random], Made]
SMALL = string.ascii_lowercase + string.digits
_FOLDERS = ["src", "docs", "tests", "lib", "data", "home", "tmp", "etc", "var", "usr", "app", "work"]


def one_of(rng: Random, makers: Sequence[Maker[Made]], weights: Sequence[float] | None = None) -> Made:
    """A value of one of several makers."""
    return rng.choices(makers, weights)[0](rng)


def invented(rng: Random, syllables: int | None = None) -> str:
    return "".join(rng.choice(SYLLABLES) for _ in range(syllables or rng.randint(2, 3)))


def word(rng: Random) -> str:
    if rng.random() < 0.7:
        return rng.choice(NOUNS)
    return rng.choice(ADJECTIVES) if rng.random() < 0.6 else invented(rng)


def words(rng: Random, least: int, most: int) -> str:
    return " ".join(word(rng) for _ in range(rng.randint(least, most)))


def digits(rng: Random, count: int) -> str:
    """A number of exactly so many digits."""
    return str(rng.randint(10 ** (count - 1) if count > 1 else 0, 10**count - 1))


def characters(rng: Random, alphabet: str, least: int, most: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(least, most)))


def file_name(rng: Random) -> str:
    stem = rng.choice(NOUNS) if rng.random() < 0.6 else invented(rng)
    if rng.random() < 0.3:
        stem += rng.choice("_-") + rng.choice(NOUNS)
    if rng.random() < 0.15:
        stem += digits(rng, rng.randint(1, 2))
    return f"{stem}.{rng.choice(FILE_ENDINGS)}"


def path(rng: Random) -> str:
    if rng.random() < 0.35:
        return file_name(rng)
    folders = "/".join(rng.choice(NOUNS + _FOLDERS * 4) for _ in range(rng.randint(1, 3)))
    return f"{rng.choice(['/', '', './', '~/', '/home/user/', '/tmp/'])}{folders}/{file_name(rng)}"


def folder(rng: Random) -> str:
    noun, other = rng.choice(NOUNS), rng.choice(NOUNS)
    plain = [".", "src", "docs", "/tmp", "/etc", "/home/user", "./data", "/var/log"]
    return rng.choice([*plain, f"~/{noun}", f"/{noun}/{other}", noun, f"src/{noun}"])


def command(rng: Random) -> str:
    noun = rng.choice(NOUNS)
    makers: list[Maker[str]] = [
        *(lambda _, fixed=fixed: fixed for fixed in ("ls -la", "pwd", "git status", "npm test", "date", "whoami")),
        *(lambda _, fixed=fixed: fixed for fixed in ("df -h", "pytest -q", "uname -a", "docker ps")),
        lambda _: "cargo build --release",
        lambda r: f"ls {folder(r)}",
        lambda r: f"git log -n {digits(r, 1)}",
        lambda r: f"cat {path(r)}",
        lambda r: f"echo {words(r, 1, 3)}",
        lambda _: f"python {noun}.py",
        lambda r: f"pip install {invented(r)}",
        lambda _: f"make {noun}",
        lambda r: f"grep -r {word(r)} {folder(r)}",
        lambda r: f'find . -name "*.{r.choice(FILE_ENDINGS)}"',
        lambda r: f"wc -l {file_name(r)}",
        lambda r: f"head -n {digits(r, 2)} {file_name(r)}",
        lambda r: f"mkdir -p {folder(r)}",
        lambda r: f"rm {file_name(r)}",
        lambda r: f"cp {file_name(r)} {file_name(r)}",
        lambda r: f"curl https://{invented(r)}.com/{noun}",
        lambda r: f'python -c "print({digits(r, 1)}+{digits(r, 1)})"',
    ]
    return one_of(rng, makers)


def url(rng: Random) -> str:
    host = rng.choice(NOUNS) if rng.random() < 0.5 else invented(rng)
    noun = rng.choice(NOUNS)
    ending = rng.choice([".com", ".org", ".io", ".net", ".dev"])
    rest = rng.choice(["", f"/{noun}", f"/{noun}/{digits(rng, 2)}"])
    return f"https://{rng.choice(['www.', '', 'api.', 'docs.'])}{host}{ending}{rest}"


def email(rng: Random) -> str:
    host = rng.choice(NOUNS) if rng.random() < 0.5 else invented(rng)
    return f"{rng.choice(FIRST_NAMES).lower()}@{host}{rng.choice(['.com', '.org', '.it'])}"


def expression(rng: Random) -> str:
    left, right = digits(rng, rng.randint(1, 4)), digits(rng, rng.randint(1, 3))
    space = rng.choice(["", " "])
    sum_ = f"{left}{space}{rng.choice('+-*/')}{space}{right}"
    return sum_ if rng.random() < 0.8 else f"({sum_}){space}{rng.choice('*+')}{space}{digits(rng, 1)}"


def text_value(rng: Random) -> str:
    """What a string parameter may hold."""
    makers: list[Maker[str]] = [
        invented,
        word,
        lambda r: words(r, 2, 4),
        lambda r: r.choice(FIRST_NAMES),
        lambda r: r.choice(CITIES),
        file_name,
        lambda r: characters(r, SMALL, 4, 9),
        lambda r: f"{r.choice(NOUNS).upper()}-{digits(r, 3)}",
        email,
    ]
    return one_of(rng, makers, [20, 15, 25, 8, 8, 6, 8, 5, 5])


def hard_text_value(rng: Random) -> str:
    """A string that has to be copied piece by piece."""
    makers: list[Maker[str]] = [
        lambda r: characters(r, SMALL, 4, 12),
        path,
        lambda r: characters(r, SMALL + SMALL.upper() + "_-", 3, 9),
        lambda r: " ".join(invented(r) for _ in range(r.randint(1, 3))),
        url,
        identifier,
    ]
    return one_of(rng, makers, [40, 15, 10, 15, 10, 10])


def identifier(rng: Random) -> str:
    """An invented name in one of the usual spellings: snake_case, camelCase, mcp__server__tool, dotted."""
    odd, known = invented(rng), rng.choice(NOUNS + VERBS)
    makers: list[Maker[str]] = [
        lambda _: odd,
        lambda _: f"{odd}_{known}",
        lambda _: f"{known}_{odd}",
        lambda _: odd + known.title(),
        lambda _: known + odd.title(),
        lambda _: f"mcp__{odd}__{known}",
        lambda r: f"mcp__{known}__{invented(r)}_{odd}",
        lambda _: f"{odd}-{known}",
        lambda _: f"{odd}.{known}",
        lambda _: odd.title() + known.title(),
        lambda r: f"{known}_{r.choice(NOUNS)}",
        lambda r: characters(r, SMALL, 3, 7),
    ]
    return one_of(rng, makers)
