"""What an answer's text gives as its answer: a letter, a number or lines (spec/product.md D.2). Pure, and never raises.

Only what comes after the thoughts counts. The place to look is the marker: the last word "answer" with a colon, else
the first word "answer"; where nothing usable stands there, the last letter or number of the text. Beyond D.2: markdown
signs may stand between the word and its colon ("**Answer**: C"); a number keeps its minus sign, its decimals and its
grouped thousands, so that 70.5 does not pass for 70; and the last letter of a text is the last that is neither an
article or pronoun nor negated, where there is one.
"""

import re

from whitedwarf.evals.case import Kind
from whitedwarf.evals.lines import find_lines

THINK_CLOSE = "</think>"
MARKER_LETTERS = 96  # characters after the marker in which a letter is looked for
MARKER_LINE = 160  # characters after the marker, on its line, in which a number is looked for

_WITH_COLON = re.compile(r"\banswer\b[ \t*_]*:", re.ASCII | re.IGNORECASE)
_WORD = re.compile(r"\banswer\b", re.ASCII | re.IGNORECASE)
_CAPITAL = re.compile(r"(?<!\w)([A-Z])(?!\w)")
_APOSTROPHE = "'\N{RIGHT SINGLE QUOTATION MARK}"
_WORD_FOLLOWS = re.compile(rf"[{_APOSTROPHE}]|[ \t]*[a-z]")
_WORD_BEFORE = re.compile(rf"([A-Za-z{_APOSTROPHE}]+(?:[ \t]+out)?)[ \t(\[\"*_`]*$")
_NEGATION = re.compile(
    rf".*n[{_APOSTROPHE}]t|not|except|exclud.*|eliminat.*|reject.*|(?:rule|rules|ruled|ruling)[ \t]+out", re.IGNORECASE
)
_ENGLISH_WORDS = "AI"  # an article and a pronoun; other capitals are never words of their own
_LOOK_BACK = 40  # characters; no word that negates is longer
_NUMBER = re.compile(
    r"(?:(?<![\w)\]}])[-\N{MINUS SIGN}])?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?", re.ASCII
)


def answer_part(output: str) -> str:
    """What comes after the first `</think>`; all of it where there is none."""
    _, mark, after = output.partition(THINK_CLOSE)
    return after if mark else output


def extract(text: str, kind: Kind, letters: str = "") -> str:
    """The answer that `text`, without thoughts, gives: in the form of `Case.answer`, "" for none.

    `letters` are those of the choices. A number with decimals is given as it is, and equals no integer.
    """
    if kind == "choice":
        return _letter(text, letters)
    return _integer(text) if kind == "integer" else _lines(text)


def _after_marker(text: str) -> int | None:
    """Where the last "answer:" ends, else the first "answer"."""
    end = None
    for found in _WITH_COLON.finditer(text):
        end = found.end()
    if end is None and (found_word := _WORD.search(text)):
        end = found_word.end()
    return end


def _letter(text: str, letters: str) -> str:
    start = _after_marker(text)
    if start is not None:
        window_end = start + MARKER_LETTERS
        for found in _CAPITAL.finditer(text, start):
            if found.start() >= window_end:
                break
            if found[1] in letters and not _WORD_FOLLOWS.match(text, found.end()) and not _is_negated(text, found):
                return found[1]
    return _last_letter(text, letters)


def _last_letter(text: str, letters: str) -> str:
    capitals = [found for found in _CAPITAL.finditer(text) if found[1] in letters]
    plain = (found for found in reversed(capitals) if not _is_word(text, found) and not _is_negated(text, found))
    best = next(plain, capitals[-1] if capitals else None)
    return "" if best is None else best[1]


def _is_word(text: str, found: re.Match[str]) -> bool:
    return found[1] in _ENGLISH_WORDS and _WORD_FOLLOWS.match(text, found.end()) is not None


def _is_negated(text: str, found: re.Match[str]) -> bool:
    before = _WORD_BEFORE.search(text[max(0, found.start() - _LOOK_BACK) : found.start()])
    return before is not None and _NEGATION.fullmatch(before[1]) is not None


def _marker_line(text: str) -> str:
    """What follows the marker on its line; "" without a marker."""
    start = _after_marker(text)
    return "" if start is None else text[start : start + MARKER_LINE].partition("\n")[0]


def _integer(text: str) -> str:
    line = _marker_line(text)
    _, equals, result = line.rpartition("=")
    found = (equals and _NUMBER.search(result)) or _NUMBER.search(line)
    if found:
        return _normal(found[0])
    numbers = _NUMBER.findall(text)
    return _normal(numbers[-1]) if numbers else ""


def _lines(text: str) -> str:
    return find_lines(_marker_line(text)) or (find_lines(_integer(text)) or "")


def _normal(number: str) -> str:
    """Without grouping, leading zeros, and decimals that say nothing."""
    sign = "-" if number[0] in "-\N{MINUS SIGN}" else ""
    whole, _, decimals = number.lstrip("-\N{MINUS SIGN}").replace(",", "").partition(".")
    whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
    if whole == "0" and not decimals:
        return "0"
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"
