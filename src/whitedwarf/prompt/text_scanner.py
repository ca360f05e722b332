"""Pieces of output through a chain of states: held while they may still become a marker, then given to a sink.

Promises: the earliest-ending marker wins; the text before it goes to the state's sink in the pieces it came in; the
marker vanishes; the rest is looked at again in whatever state the action entered. While the end of the text may still
become a marker the whole piece holding it waits. Every character is looked at once per state; nothing is joined, so a
stream of any length costs linear time. Does not know what states mean.
"""

from collections.abc import Callable, Iterator

from whitedwarf.prompt.marker_matcher import NEWLINE, Node
from whitedwarf.prompt.output_segment import Segment
from whitedwarf.prompt.parse_state import ParseState


class TextScanner:
    """`taken` counts characters of the whole output that are settled; positions are absolute."""

    def __init__(self, mark_settled: Callable[[], None]) -> None:
        self._mark_settled = mark_settled
        self._pending: list[Segment] = []
        self._received = 0
        self._taken = 0
        self._index = 0  # where scanning goes on: segment in `_pending` and offset in its text
        self._offset = 0
        self._closed = False
        self._floor = 0  # where the last marker or the last text given out ended
        self._marker_home: Segment | None = None  # the piece that holds all of the last marker
        self.is_undecided = False  # all that follows the last marker in its piece may still become the next one
        self._is_fresh = False  # a marker was the last thing: empty pieces right after it belong to it
        self._state: ParseState
        self._node: Node
        self._run_starts: list[int] = []
        self.marker_segment: Segment | None = None  # the piece the last marker ended in

    def enter(self, new: ParseState) -> None:
        """Go on in another state, from the first character that is not settled yet."""
        self._state = new
        self._node = new.matcher.root
        self._run_starts = [0] * len(new.actions)
        self._index = 0
        self._offset = self._taken - self._pending[0].start if self._pending else 0

    def close(self) -> None:
        """Drop everything that waits; nothing is given out any more."""
        self._closed = True
        self._pending.clear()

    def feed(self, segment: Segment) -> None:
        """Take one more piece and give out what is settled now."""
        segment.start = self._received
        self._received += len(segment.text)
        if not segment.text and self._is_fresh:
            return
        self._pending.append(segment)
        if self._received:  # empty pieces before the very first character wait for it
            self._is_fresh = False
            self._run()

    def finish(self) -> None:
        """No more pieces: what is held was no marker."""
        while self._gives_up():
            self._run()
        if self._closed or not self._pending:
            return
        if self._state.flushes and self._received:
            self._release(len(self._pending))
        self._pending.clear()

    def _gives_up(self) -> bool:
        """Whether the text at the end is none that a limited state looks for; then the state was left."""
        if self._closed or not self._pending or self._may_be(self._received):
            return False
        assert self._state.on_limit is not None
        self._state.on_limit()
        return True

    def _may_be(self, end: int) -> bool:
        """Whether the state allows the text before `end` to come before a marker."""
        limit, may_precede = self._state.text_limit, self._state.may_precede
        if limit is None or may_precede is None:
            return True
        if end - self._taken > limit:
            return False
        return may_precede("".join(self._unsettled(end)))

    def _unsettled(self, end: int) -> Iterator[str]:
        """The text before `end` that is not settled, piece by piece; what lies behind it is not looked at."""
        for segment in self._pending:
            if segment.start >= end:
                return
            yield segment.text[max(self._taken - segment.start, 0) : end - segment.start]

    def _run(self) -> None:
        while not self._closed and (self._skip_newlines() if self._state.after_newlines else self._find_marker()):
            pass
        self.is_undecided = False
        if not self._closed and self._pending and self._state.after_newlines is None:
            self._release(self._settled_segments())

    def _exceeds_limit(self) -> bool:
        """Whether no marker can come within the state's limit any more; then the state was left."""
        on_limit = self._state.on_limit
        if on_limit is None or self._received <= self._horizon():
            return False
        on_limit()
        return True

    def _horizon(self) -> int:
        """Where a marker within the state's limit has ended at the latest; without a limit, where the text ends."""
        limit = self._state.text_limit
        if limit is None:
            return self._received
        return self._taken + limit + self._state.matcher.longest_pattern

    def _find_marker(self) -> bool:
        pending, matcher, node = self._pending, self._state.matcher, self._node
        root, find_first = matcher.root, matcher.find_first
        index, offset = self._index, self._offset
        horizon = self._horizon()  # what lies beyond is not looked at: it will be again in the next state
        while index < len(pending):
            segment = pending[index]
            text = segment.text
            is_of_ids = segment.id_starts is not None
            size = min(len(text), horizon - segment.start)
            while offset < size:
                if node is root:
                    found = find_first(text, offset, size)
                    if found is None:
                        break
                    offset = found.start()
                character = text[offset]
                edges = node.id_edges if is_of_ids else node.edges
                node, began = edges.get(character) or matcher.edge(node, character, is_of_ids=is_of_ids)
                for pattern in began:
                    self._run_starts[pattern] = segment.start + offset
                offset += 1
                if node.match >= 0:
                    self._node = node
                    self._take_marker(index, segment.start + offset)
                    return True
            index += 1
            offset = 0
        self._node, self._index, self._offset = node, index, offset
        return self._exceeds_limit()

    def _take_marker(self, index: int, end: int) -> None:
        match = self._node.match
        begin = (
            self._run_starts[match] if match in self._node.runs else end - len(self._state.matcher.patterns[match].text)
        )
        pending = self._pending
        if not self._may_be(begin):
            assert self._state.on_limit is not None
            self._state.on_limit()
            return
        if begin > self._taken:
            for segment in pending[: index + 1]:
                self._give(segment, begin)
        last = pending[index]
        home = next(one for one in pending if one.start + len(one.text) >= begin + (one.text != ""))
        self._marker_home = home if home is last else None
        del pending[: index + (last.start + len(last.text) == end)]
        self._taken = self._floor = end
        self._is_fresh = not pending
        self.marker_segment = last
        action = self._state.actions[match]
        self._node = self._state.matcher.root
        self._index, self._offset = 0, end - pending[0].start if pending else 0
        self._mark_settled()
        action()

    def _give(self, segment: Segment, end: int) -> None:
        """Hand the part of a segment before `end` to the sink; an empty piece stays a piece."""
        size = len(segment.text)
        begin = max(self._taken - segment.start, 0)
        stop = min(end - segment.start, size)
        if stop > begin:
            text = segment.text if segment.spelling is None else segment.spelling
            whole = stop - begin == size
            self._state.sink(text if whole else text[begin:stop], segment, begin)
        elif size == 0 and segment.start <= end:
            self._state.sink("", segment, 0)

    def _settled_segments(self) -> int:
        node, pending = self._node, self._pending
        if self._state.text_limit is not None:
            return 0
        if node is self._state.matcher.root:
            return len(pending)
        held = self._received - node.longest
        for pattern in node.runs:
            held = min(held, self._run_starts[pattern])
        count = 0
        self.is_undecided = held <= self._floor and pending[0] is self._marker_home
        while held > self._floor and count < len(pending) and pending[count].start + len(pending[count].text) <= held:
            count += 1
        return count

    def _release(self, count: int) -> None:
        for segment in self._pending[:count]:
            self._give(segment, self._received)
            self._taken = self._floor = segment.start + len(segment.text)
        if count:
            self._mark_settled()
        del self._pending[:count]
        self._index, self._offset = len(self._pending), 0

    def _skip_newlines(self) -> bool:
        """Drop newlines up to the first other character; True when something else is to be done with the rest."""
        pending = self._pending
        while True:
            full = next((i for i, segment in enumerate(pending) if segment.text), None)
            if full is None:
                pending.clear()
                self._is_fresh = True
                return False
            segment = pending[full]
            at = max(self._taken - segment.start, 0)
            if at < len(segment.text) and segment.text[at] != NEWLINE:
                assert self._state.after_newlines is not None
                self._state.after_newlines()
                return True
            del pending[:full]
            if at == len(segment.text):
                del pending[0]
                continue
            self._taken += 1
            if self._state.actions:
                self.marker_segment = segment
                self._state.actions[0]()
                return True
