"""Markdown that grows: what is complete is read once, only the last block is read again when more comes.

Promises: the text may be cut anywhere, the lines at the end are the same; no HTML, no links that can be clicked, no
markup but CommonMark with tables and strikethrough; a block that never ends is cut after `LONGEST_BLOCK` characters.
"""

import re
import time
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from textual.content import Content

from whitedwarf.agent.tui.code import StreamingCode
from whitedwarf.agent.tui.elements import Blank, Element, joined
from whitedwarf.agent.tui.markdown_blocks import BlockBuilder
from whitedwarf.agent.tui.shown import TAB, shown

LONGEST_BLOCK = 4_000  # characters
SLOW_S = 0.05  # a block that takes longer to read is read again only after `REST` times as long
REST = 6
_OPENER = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)\n")


class GrowingMarkdown:
    """`feed` what comes, `finish` at the end, `lines` at any time."""

    def __init__(self, is_plain: bool = False) -> None:
        self._parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
        self._blocks = BlockBuilder(is_plain)
        self._pending = ""
        self._fence: _Fence | None = None
        self._done: list[Element] = []
        self._tail: list[Element] = []
        self._is_read = True
        self._not_before_s = 0.0
        self._width = 0
        self._done_lines: list[Content] = []
        self._wrapped = 0  # of `_done`, those whose lines are in `_done_lines`

    def feed(self, text: str) -> None:
        """More of it."""
        for begin in range(0, len(text), LONGEST_BLOCK):
            self._pending += text[begin : begin + LONGEST_BLOCK]
            self._is_read = False
            if len(self._pending) > LONGEST_BLOCK:
                self._read()

    def finish(self) -> None:
        """That was all."""
        if self._pending and not self._pending.endswith("\n"):
            self.feed("\n")
        self._read()
        self._done += self._tail
        self._tail, self._pending, self._fence = [], "", None

    def lines(self, width: int) -> list[Content]:
        """As wide as asked; a blank line between blocks, none at the ends."""
        if not self._is_read and time.monotonic() >= self._not_before_s:
            began_s = time.monotonic()
            self._read()
            took_s = time.monotonic() - began_s
            self._not_before_s = began_s + REST * took_s if took_s > SLOW_S else 0.0
        if width != self._width:
            self._width, self._done_lines, self._wrapped = width, [], 0
        self._done_lines += joined(self._done[self._wrapped :], width)
        self._wrapped = len(self._done)
        return self._done_lines + joined(self._tail, width)

    def _read(self) -> None:
        self._is_read, self._tail = True, []
        while self._read_fence() if self._fence is not None else self._read_blocks():
            pass

    def _read_fence(self) -> bool:
        """Whether the fence has ended, and something else may follow."""
        assert self._fence is not None
        self._pending, fresh = self._fence.take(self._pending)
        if fresh:
            self._done.append(self._blocks.code(fresh))
        if self._fence.is_closed:
            self._fence = None
            return True
        if self._pending and not self._fence.may_close(self._pending):
            self._tail = [self._blocks.code([Content(shown(self._pending).expandtabs(TAB))])]
        return False

    def _read_blocks(self) -> bool:
        """Whether what is left begins with a fence, or has to be read again.

        Where one block ends and the next begins is seen from complete lines only: of "*e*" the first character alone
        would begin a list.
        """
        nodes = self._parse(self._pending[: self._pending.rfind("\n") + 1])
        if nodes:
            self._settle(nodes[:-1])
            self._drop_lines(nodes[-1].map[0] if nodes[-1].map else 0)
            opener = _OPENER.match(self._pending)
            if opener:
                self._open_fence(opener)
                return True
        if len(self._pending) > LONGEST_BLOCK:
            return self._cut(nodes[-1] if nodes else None)
        self._tail = []
        for node in self._parse(self._pending):
            self._tail += [*([Blank()] if self._done or self._tail else []), *self._blocks.build(node)]
        return False

    def _parse(self, text: str) -> Sequence[SyntaxTreeNode]:
        return SyntaxTreeNode(self._parser.parse(shown(text))).children if text.strip() else []

    def _cut(self, node: SyntaxTreeNode | None) -> bool:
        """Settle a block that is too long, but for the last item of a list; whether there is something left."""
        items = node.children if node and node.type in ("bullet_list", "ordered_list") else []
        lines = self._pending.split("\n")
        if node and len(items) > 1 and items[-1].map and node.map:
            number = items[-1].map[0] - node.map[0]
        else:
            number = len(lines) - 1 if node else len(lines)
        self._settle(self._parse("\n".join(lines[:number])))
        self._drop_lines(number)
        return bool(items)

    def _drop_lines(self, number: int) -> None:
        self._pending = "\n".join(self._pending.split("\n")[number:])

    def _open_fence(self, opener: re.Match[str]) -> None:
        self._fence = _Fence(opener[2], opener[3].strip(), len(opener[1]))
        self._pending = self._pending[opener.end() :]
        self._separate()
        self._done += [*self._blocks.code_head(self._fence.language), self._blocks.code([])]

    def _settle(self, nodes: Sequence[SyntaxTreeNode]) -> None:
        for node in nodes:
            self._separate()
            self._done += self._blocks.build(node)

    def _separate(self) -> None:
        if self._done:
            self._done.append(Blank())


class _Fence:
    """Code between two fences, the second of which may not be there yet."""

    def __init__(self, fence: str, info: str, indent: int) -> None:
        self._indent = indent
        self.language = info.split()[0] if info else ""
        self.code = StreamingCode(self.language)
        self.is_closed = False
        self._mark = fence[0]
        self._closer = re.compile(rf"^ {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
        self._taken = 0

    def may_close(self, line: str) -> bool:
        """Whether this beginning of a line may become the end of the code."""
        return set(line.strip()) == {self._mark}

    def take(self, text: str) -> tuple[str, list[Content]]:
        """What of the text is not code of ours, and the lines that are complete now."""
        lines = text.split("\n")
        for number, line in enumerate(lines[:-1]):
            if self._closer.match(line):
                self.is_closed = True
                self._feed(lines[:number])
                return "\n".join(lines[number + 1 :]), self._fresh()
        self._feed(lines[:-1])
        return lines[-1], self._fresh()

    def _feed(self, lines: Sequence[str]) -> None:
        if lines:
            self.code.feed("".join(f"{self._unindented(line)}\n" for line in lines))

    def _unindented(self, line: str) -> str:
        """Without the spaces that the fence has, too."""
        return line[min(self._indent, len(line) - len(line.lstrip(" "))) :]

    def _fresh(self) -> list[Content]:
        fresh = self.code.lines[self._taken :]
        self._taken = len(self.code.lines)
        return fresh
