"""Finding the earliest of several markers in text that arrives piece by piece.

Promises: the marker that *ends* first wins, ties go to the one listed first; each character is looked at once, however
the text is cut, and a run of ordinary characters is skipped at the speed of a regular expression. A marker may take
the newlines before it along. Does not know what the markers mean.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

NEWLINE = "\n"
MOST_SHARED_CHARACTERS = 4096  # of all markers together; a client's stop strings may be longer
MOST_SHARED = 256


@dataclass(frozen=True, slots=True)
class Pattern:
    """A marker; with `eats_newlines` the newlines right before it belong to it.

    A newline that has just broken off a half-read marker is no such newline: that is how the official parser counts.
    `spelt`: from where to where `text` spells a control token, which ids of ordinary text never do.
    `marker`: what the readings of one marker share; when a newline breaks off one of them, none takes it.
    """

    text: str
    eats_newlines: bool = False
    spelt: tuple[int, int] = (0, 0)
    marker: str = ""


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far one pattern has come: characters matched, and whether a run of newlines leads up to them."""

    pattern: int
    matched: int = 0
    has_run: bool = False


Edge = tuple["Node", tuple[int, ...]]


class Node:
    """What the matcher remembers between two characters: the patterns that have begun."""

    __slots__ = ("edges", "id_edges", "longest", "match", "progress", "runs")

    def __init__(self, progress: tuple[_Progress, ...], patterns: Sequence[Pattern]) -> None:
        self.progress = progress
        self.edges: dict[str, Edge] = {}
        self.id_edges: dict[str, Edge] = {}
        complete = [one.pattern for one in progress if one.matched == len(patterns[one.pattern].text)]
        self.match = min(complete, default=-1)
        self.longest = max((one.matched for one in progress), default=0)
        self.runs = tuple([one.pattern for one in progress if one.has_run])


class Matcher:
    """An automaton that is built while it is used: `edge` gives the next node and the patterns whose run begins."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.patterns = patterns
        self.longest_pattern = max((len(pattern.text) for pattern in patterns), default=0)
        self._fallbacks: dict[int, list[int]] = {}
        self._nodes: dict[tuple[_Progress, ...], Node] = {}
        self.root = self._node(())
        self._beginning: dict[str, list[_Progress]] = {}  # the patterns that a character can begin
        for place, pattern in enumerate(patterns):
            for first in {pattern.text[0], NEWLINE} if pattern.eats_newlines else {pattern.text[0]}:
                self._beginning.setdefault(first, []).append(_Progress(place))
        first = "".join(map(re.escape, self._beginning))
        # An empty class matches nothing: a state without markers skips everything.
        self.find_first = re.compile(f"[{first}]" if first else "(?!)").search

    def complete(self) -> None:
        """Be fit for several threads: nodes and edges may then be made twice, which changes nothing, and all else is
        made now."""
        for place, pattern in enumerate(self.patterns):
            self._fallbacks_of(place, len(pattern.text))

    def edge(self, node: Node, character: str, *, is_of_ids: bool) -> Edge:
        """Where `character` leads from `node`; ids and text pieces match differently."""
        edges = node.id_edges if is_of_ids else node.edges
        found = edges.get(character)
        if found is not None:
            return found
        edge = self._made(node, character, is_of_ids)
        if edge[0] is not self.root:  # not remembered otherwise: text has too many different characters
            edges[character] = edge
        return edge

    def _made(self, node: Node, character: str, is_of_ids: bool) -> Edge:
        steps = [(old, self._step(old, character, is_of_ids)) for old in self._candidates(node, character)]
        began = tuple([new.pattern for old, new in steps if new.has_run and not old.has_run])
        going = [new for _, new in steps if new.matched or new.has_run]
        return self._node(tuple(sorted(going, key=_place))), began

    def _candidates(self, node: Node, character: str) -> list[_Progress]:
        """The patterns that have begun, and those that this character may begin."""
        begun = {one.pattern for one in node.progress}
        fresh = [one for one in self._beginning.get(character, ()) if one.pattern not in begun]
        if character == NEWLINE:
            half_read = {self.patterns[one.pattern].marker for one in node.progress if one.matched} - {""}
            fresh = [one for one in fresh if self.patterns[one.pattern].marker not in half_read]
        return [*node.progress, *fresh]

    def _node(self, progress: tuple[_Progress, ...]) -> Node:
        node = self._nodes.get(progress)
        if node is None:
            node = self._nodes[progress] = Node(progress, self.patterns)
        return node

    def _step(self, old: _Progress, character: str, is_of_ids: bool) -> _Progress:
        pattern, matched = self.patterns[old.pattern], old.matched
        if _fits(pattern, matched, character, is_of_ids):
            return _Progress(old.pattern, matched + 1, old.has_run)
        if matched == 0:
            return _Progress(old.pattern, 0, pattern.eats_newlines and character == NEWLINE)
        fallbacks = self._fallbacks_of(old.pattern, matched)
        while matched and not _fits(pattern, matched, character, is_of_ids):
            matched = fallbacks[matched]
        return _Progress(old.pattern, matched + _fits(pattern, matched, character, is_of_ids))

    def _fallbacks_of(self, place: int, matched: int) -> list[int]:
        """Up to what is matched: a stop string of megabytes costs no more than the text that is like it."""
        table = self._fallbacks.setdefault(place, [0, 0])
        _extend_fallbacks(table, self.patterns[place].text, matched)
        return table


def matcher_of(patterns: tuple[Pattern, ...]) -> Matcher:
    """A matcher for all who look for these patterns, in any thread: every answer would build the same ones anew."""
    if is_long(patterns):
        return Matcher(patterns)
    return _shared(patterns)


def is_long(patterns: Sequence[Pattern]) -> bool:
    """Whether they are too long to be kept for others."""
    return sum(len(pattern.text) for pattern in patterns) > MOST_SHARED_CHARACTERS


@lru_cache(maxsize=MOST_SHARED)
def _shared(patterns: tuple[Pattern, ...]) -> Matcher:
    matcher = Matcher(patterns)
    matcher.complete()
    return matcher


def _place(progress: _Progress) -> int:
    return progress.pattern


def _fits(pattern: Pattern, at: int, character: str, is_of_ids: bool) -> bool:
    if pattern.text[at] != character:
        return False
    begin, end = pattern.spelt
    return not (is_of_ids and begin <= at < end)


def _extend_fallbacks(table: list[int], text: str, size: int) -> None:
    """For each matched length the longest shorter one that the same end of text also matches (Knuth-Morris-Pratt).

    `table` has those of lengths 0 and 1 at least, and afterwards all up to `size`.
    """
    for length in range(len(table), size + 1):
        character, matched = text[length - 1], table[-1]
        while matched and text[matched] != character:
            matched = table[matched]
        table.append(matched + (text[matched] == character))
