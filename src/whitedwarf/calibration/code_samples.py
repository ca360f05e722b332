"""Small programs with names of their own, right or with one known mistake; files, diffs and test logs around them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from whitedwarf.calibration.code_templates import LANGUAGES, Tongue
from whitedwarf.calibration.dice import Dice
from whitedwarf.calibration.words import ADJECTIVES, NOUNS, PATH_PARTS, VERBS, camel, indefinite, pascal, snake

_PLACE = re.compile("«([a-z0-9]+)»")
_MISTAKE = re.compile("⟦([^|⟧]*)\\|([^⟧]*)⟧")
_SPELLINGS: Mapping[str, Callable[[str], str]] = {"snake": str, "camel": camel, "pascal": pascal}


@dataclass(frozen=True, slots=True)
class Sample:
    """A piece of a program, and the line that a mistake would change."""

    language: str
    function: str
    code: str
    right_line: str
    wrong_line: str

    @property
    def broken(self) -> str:
        """The code with the mistake."""
        return self.code.replace(self.right_line, self.wrong_line, 1)

    @property
    def tongue(self) -> Tongue:
        return LANGUAGES[self.language]

    @property
    def fence(self) -> str:
        """The language as Markdown names it."""
        return {"C++": "cpp", "C#": "csharp", "Bash": "bash"}.get(self.language, self.language.lower())


def note(dice: Dice) -> str:
    """What a comment says."""
    verb, noun, other = dice.pick(VERBS).capitalize(), dice.pick(NOUNS), dice.pick(NOUNS)
    forms = (
        f"{verb} the {dice.pick(ADJECTIVES)} {noun} before the {other} is used.",
        f"{verb} each {noun}; the {other} stays as it is.",
        f"{verb} {indefinite(noun)} by its {other}, newest first.",
        f"{verb} every {noun} that has no {other} yet.",
        f"{verb} the {noun} and tell how many there were.",
    )
    return dice.pick(forms)


def sample(dice: Dice, language: str | None = None) -> Sample:
    """One in that language, or in any."""
    language = language or dice.pick(tuple(LANGUAGES))
    tongue = LANGUAGES[language]
    spell = _SPELLINGS[tongue.functions]
    x, y = dice.some([noun for noun in NOUNS if not noun.endswith(("s", "y"))], 2)
    values = {
        "fn": spell(snake(dice)),
        "ty": pascal(f"{dice.pick(ADJECTIVES)}_{dice.pick(NOUNS)}"),
        "x": x,
        "y": y,
        "n": str(dice.between(2, 500)),
        "m": str(dice.between(2, 12)),
        "note": note(dice),
    }
    text = _PLACE.sub(lambda place: values[place[1]], dice.pick(tongue.templates))
    line = next(line for line in text.split("\n") if _MISTAKE.search(line))
    right, wrong = (_MISTAKE.sub(lambda place, at=at: place[at], line) for at in (1, 2))  # type: ignore[misc]
    code = _MISTAKE.sub(lambda place: place[1], text)
    return Sample(language, values["fn"], code, right, wrong)


def path_of(dice: Dice, tongue: Tongue) -> str:
    """Where such a file might lie."""
    folders = dice.some(PATH_PARTS, dice.between(1, 2)) + ([dice.pick(NOUNS)] if dice.chance(50) else [])
    name = snake(dice) if tongue.functions == "snake" else pascal(snake(dice))
    return "/".join([*folders, f"{name}.{tongue.suffix}"])


def numbered(code: str, first: int = 1) -> str:
    """As tools show files."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(code.rstrip("\n").split("\n"), first))


def diff(path: str, before: str, old: str, new: str, context: int = 3) -> str:
    """The unified diff of replacing one line."""
    lines = before.rstrip("\n").split("\n")
    at = lines.index(old)
    start, end = max(0, at - context), min(len(lines), at + 1 + context)
    head = [f"--- a/{path}", f"+++ b/{path}", f"@@ -{start + 1},{end - start} +{start + 1},{end - start} @@"]
    body = (
        [f" {line}" for line in lines[start:at]] + [f"-{old}", f"+{new}"] + [f" {line}" for line in lines[at + 1 : end]]
    )
    return "\n".join([*head, *body])
