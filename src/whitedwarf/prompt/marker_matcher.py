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


@dataclass(frozen=True, slots=True)
class Pattern:
    """A marker; with `eats_newlines` the newlines right before it belong to it.

    A newline that has just broken off a half-read marker is no such newline: that is how the official parser counts.
    """

    text: str
    eats_newlines: bool = False


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far one pattern has come: characters matched, and whether a run of newlines leads up to them."""

    matched: int
    has_run: bool


class Node:
    """What the matcher remembers between two characters."""

    __slots__ = ("edges", "longest", "match", "progress", "runs")

    def __init__(self, progress: tuple[_Progress, ...], patterns: Sequence[Pattern]) -> None:
        self.progress = progress
        self.edges: dict[str, tuple[Node, tuple[int, ...]]] = {}
        complete = [i for i, pattern in enumerate(patterns) if progress[i].matched == len(pattern.text)]
        self.match = complete[0] if complete else -1
        self.longest = max((one.matched for one in progress), default=0)
        self.runs = tuple([i for i, one in enumerate(progress) if one.has_run])


class Matcher:
    """An automaton that is built while it is used: `edge` gives the next node and the patterns whose run begins."""

    def __init__(self, patterns: tuple[Pattern, ...]) -> None:
        self.patterns = patterns
        self._fallbacks = [_fallbacks(pattern.text) for pattern in patterns]
        self._nodes: dict[tuple[_Progress, ...], Node] = {}
        self.root = self._node(tuple([_Progress(0, False)] * len(patterns)))
        first = {pattern.text[0] for pattern in patterns}
        if any(pattern.eats_newlines for pattern in patterns):
            first.add(NEWLINE)
        self._alphabet = first.union(*(pattern.text for pattern in patterns))
        # An empty class matches nothing: a state without markers skips everything.
        self.find_first = re.compile("[" + "".join(map(re.escape, sorted(first))) + "]" if first else "(?!)").search

    def edge(self, node: Node, character: str) -> tuple[Node, tuple[int, ...]]:
        """Where `character` leads from `node`."""
        found = node.edges.get(character)
        if found is not None:
            return found
        if character not in self._alphabet:  # not remembered: text has too many different characters
            return self.root, ()
        steps = [self._step(i, one, character) for i, one in enumerate(node.progress)]
        began = tuple([i for i, new in enumerate(steps) if new.has_run and not node.progress[i].has_run])
        edge = self._node(tuple(steps)), began
        node.edges[character] = edge
        return edge

    def _node(self, progress: tuple[_Progress, ...]) -> Node:
        node = self._nodes.get(progress)
        if node is None:
            node = self._nodes[progress] = Node(progress, self.patterns)
        return node

    def _step(self, index: int, progress: _Progress, character: str) -> _Progress:
        pattern = self.patterns[index]
        matched = progress.matched
        if pattern.text[matched] == character:
            return _Progress(matched + 1, progress.has_run)
        if matched == 0:
            return _Progress(0, pattern.eats_newlines and character == NEWLINE)
        fallbacks = self._fallbacks[index]
        while matched and pattern.text[matched] != character:
            matched = fallbacks[matched]
        return _Progress(matched + (pattern.text[matched] == character), False)


@lru_cache(maxsize=128)
def shared_matcher(patterns: tuple[Pattern, ...]) -> Matcher:
    """One automaton for all answers with the same markers; only for markers that no user chooses."""
    return Matcher(patterns)


def _fallbacks(text: str) -> list[int]:
    """For each matched length the longest shorter one that the same end of text also matches (Knuth-Morris-Pratt)."""
    table = [0, 0]
    matched = 0
    for character in text[1:]:
        while matched and text[matched] != character:
            matched = table[matched]
        matched += text[matched] == character
        table.append(matched)
    return table
