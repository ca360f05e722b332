"""Texts that lead careless extractors astray, with what they really answer: the table that tests and
`whitedwarf eval --self-test-extractors` share (spec/product.md D.2)."""

from dataclasses import dataclass

from whitedwarf.evals.case import Kind
from whitedwarf.evals.extract import answer_part, extract


@dataclass(frozen=True, slots=True)
class Trap:
    """`text` is a whole output; `given` what it answers, "" for nothing."""

    name: str
    kind: Kind
    letters: str
    text: str
    given: str

    def found(self) -> str:
        """What the extractor finds."""
        return extract(answer_part(self.text), self.kind, self.letters)


def _letters(name: str, text: str, given: str, letters: str = "ABCD") -> Trap:
    return Trap(name, "choice", letters, text, given)


def _integer(name: str, text: str, given: str) -> Trap:
    return Trap(name, "integer", "", text, given)


def _lines(name: str, text: str, given: str) -> Trap:
    return Trap(name, "lines", "", text, given)


TEN = "ABCDEFGHIJ"
TRAPS = (
    # The marker: the last "answer:", else the first "answer".
    _letters("the last marker counts", "Answer: A\nNo, wait.\nAnswer: C", "C"),
    _letters("a marker before a later letter", "Answer: B.\nD is a close second.", "B"),
    _letters("a colon beats an earlier word", "The answer might be A.\nAnswer: D", "D"),
    _letters("blanks before the colon", "Answer  : C", "C"),
    _letters("a bold word", "The answer is not easy: A or B.\n**Answer**: B", "B"),
    _letters("a bold letter", "**Answer:** **C**", "C"),
    _letters("no capital in the word", "the final answer: D", "D"),
    _letters("answers are no answer", "Answers: A, B\nI take D. The answer is C", "C"),
    _letters("the first word without a colon", "My answer is B. Whoever answers A is wrong about D", "B"),
    _letters("thoughts do not count", "Answer: A, or Answer: B</think>Answer: C", "C"),
    _letters("only the first close ends thoughts", "Answer: A</think>The tag </think> is markup.\nAnswer: D", "D"),
    _letters("a marker in thoughts alone", "Answer: A</think>I take C.", "C"),
    _letters("a boxed letter", r"Answer: $\boxed{C}$", "C"),
    _letters("a letter in brackets", "Answer: (B)", "B"),
    _letters("a letter with its text", "Answer: B. The second law", "B"),
    _letters("on the next line", "Answer:\n\nC", "C"),
    _letters("too far behind the marker", "Answer: " + "x" * 120 + " A\nB", "B"),
    # The loose fallback: the last standalone capital.
    _letters("no marker at all", "It has to be B", "B"),
    _letters("the last of several", "A and C fail, so it is D.", "D"),
    _letters("a letter in a word is none", "Because of DNA and RNA it is B (see ABC).", "B"),
    _letters("nothing in range", "It is E or F", ""),
    _letters("an empty answer", "", ""),
    _letters("an underscore joins", "Answer: x_A is C", "C"),
    # Articles, pronouns, contractions.
    _letters("an article is no answer", "Answer: A good look at the data gives C.", "C"),
    _letters("an article in the fallback", "It is C. A simple choice", "C"),
    _letters("a pronoun is no answer", "Answer: I think that it is C.", "C", TEN),
    _letters("a contraction is no answer", "Answer: I'd say F.", "F", TEN),
    _letters("a curly apostrophe", "Answer: I\N{RIGHT SINGLE QUOTATION MARK}m sure, G.", "G", TEN),
    _letters("a pronoun in the fallback", "It is D, I think", "D", TEN),
    _letters("a letter whose sentence goes on", "Answer: C is right because A fails.", "C"),
    _letters("I as a real answer", "Answer: I", "I", TEN),
    _letters("I with a full stop", "Answer: I.", "I", TEN),
    _letters("I and its text", "Answer: I) I am sure", "I", TEN),
    _letters("I at the end of the text", "So the right one is I", "I", TEN),
    _letters("A as a real answer", "Answer: A", "A"),
    _letters("a word on the next line is another line", "Answer: A\nas shown above", "A"),
    # Negation.
    _letters("not this one", "Answer: not A, but C", "C"),
    _letters("isn't this one", "Answer: it isn't B; D", "D"),
    _letters("a curly n't", "Answer: it can\N{RIGHT SINGLE QUOTATION MARK}t B; D", "D"),
    _letters("except", "Answer: all but one, except A: C.", "C"),
    _letters("excluded", "Answer: having excluded A, D.", "D"),
    _letters("eliminated", "Answer: we eliminate B, C.", "C"),
    _letters("rejected", "Answer: rejecting (A), B.", "B"),
    _letters("rule out", "Answer: I rule out A; B", "B", "ABCD"),
    _letters("ruled out", "Answer: ruled out B, D", "D"),
    _letters("out alone is no negation", "Answer: it turns out B", "B"),
    _letters("a full stop ends a negation", "The answer: I would not. C", "C"),
    _letters("negated in the fallback", "It is B, not C", "B"),
    _letters("another word with not in it", "Answer: nothing. Denote B", "B"),
    # Integers.
    _integer("a plain number", "Answer: 70", "70"),
    _integer("leading zeros", "Answer: 007", "7"),
    _integer("zero", "Answer: 000", "0"),
    _integer("the last marker", "Answer: 12\nAnswer: 70", "70"),
    _integer("an arithmetic line", "Answer: 3 * 20 + 10 = 70", "70"),
    _integer("several equals signs", "Answer: 2^3 = 8 = 16/2 = 8", "8"),
    _integer("nothing behind the equals sign", "Answer: 70 =", "70"),
    _integer("words behind the number", "Answer: 70 (from 7 times 10)", "70"),
    _integer("digits on a later line", "Answer: 70\nProblem 12 of 2025", "70"),
    _integer("only digits on a later line", "Answer: see below\nthe sum is 70", "70"),
    _integer("no marker: the last number", "From 3 and 4 it is 7.", "7"),
    _integer("a full stop", "Answer: 70.", "70"),
    _integer("boxed", r"Answer: $\boxed{70}$", "70"),
    _integer("too far behind the marker", "Answer: " + "x" * 170 + " 5\nSo 70", "70"),
    _integer("decimals are another number", "Answer: 70.5", "70.5"),
    _integer("decimals that say nothing", "Answer: 70.0", "70"),
    _integer("a minus sign is another number", "Answer: -70", "-70"),
    _integer("a difference is no minus sign", "Answer: 100-30=70", "70"),
    _integer("grouped thousands", "Answer: 1,024", "1024"),
    _integer("a list is no grouping", "Answer: 12,14", "12"),
    _integer("no number", "Answer: none", ""),
    # Lines of a listing.
    _lines("one line", "Answer: 12", "12"),
    _lines("several lines", "Answer: 12, 14", "12,14"),
    _lines("a range", "Answer: 12, 14 - 15", "12,14-15"),
    _lines("a dash of typographers", "Answer: lines 14\N{EN DASH}15", "14-15"),
    _lines("leading zeros in lines", "Answer: 012", "12"),
    _lines("what is said behind them", "Answer: 12 (the copy of 8 bytes)", "12"),
    _lines("safe", "Answer: 0", "0"),
    _lines("the last marker for lines", "Answer: 3\nAnswer: 12", "12"),
    _lines("lines in thoughts", "Answer: 3</think>Answer: 12", "12"),
    _lines("lines on a later line", "Answer: the copy\nSo it is line 12", "12"),
    _lines("the same twice", "Answer: 12, 12", "12"),
    _lines("no lines", "Answer: I cannot tell", ""),
)


def fallen_for() -> list[str]:
    """A line for each trap that the extractors fall for; none is what has to come out."""
    return [
        f"{trap.name}: expected {trap.given!r}, got {found!r}"
        for trap in TRAPS
        if (found := trap.found()) != trap.given
    ]
