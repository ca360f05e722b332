"""Blocks of Markdown as elements of the screen; links show where they lead, and nothing can be clicked."""

from collections.abc import Iterable, Sequence

from markdown_it.tree import SyntaxTreeNode
from textual.content import Content

from whitedwarf.agent.tui.code import coloured
from whitedwarf.agent.tui.elements import EMPTY, Blank, Code, Element, Row, Rule, Table
from whitedwarf.agent.tui.shown import TAB

CODE_STYLE = "$text-accent"
DEEPEST = 12  # quotes and lists within each other; deeper ones are shown as deep as this
_INLINE_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}


class BlockBuilder:
    """From nodes to elements. `is_plain`: for ears, without lines and bullets that are drawn."""

    def __init__(self, is_plain: bool = False) -> None:
        self._is_plain = is_plain
        self._code_prefix = Content("  ") if is_plain else Content.styled("│ ", "dim")
        self._quote_prefix = Content("> ") if is_plain else Content.styled("▌ ", "dim")
        self._bullet = "- " if is_plain else "• "

    def build(
        self, node: SyntaxTreeNode, first: Content = EMPTY, rest: Content = EMPTY, depth: int = 0
    ) -> list[Element]:
        """The elements of one block; `first` stands before its first line."""
        kind = node.type
        if kind == "heading":
            return [Row(inline(node, "bold underline" if node.tag in ("h1", "h2") else "bold"), first, rest)]
        if kind in ("fence", "code_block"):
            return [*self.code_head(node.info.split()[0] if node.info.strip() else "", first), *self._code(node, rest)]
        if kind == "hr":
            return [Rule(first, "-" if self._is_plain else "─")]
        if kind == "table":
            return [self._table(node, rest)]
        if kind == "blockquote":
            mark = self._quote_prefix if depth < DEEPEST else EMPTY
            return self._children(node.children, first + mark, rest + mark, depth + 1)
        if kind in ("bullet_list", "ordered_list"):
            return self._list(node, first, rest, depth)
        return [Row(inline(node), first, rest)]

    def code_head(self, language: str, prefix: Content = EMPTY) -> list[Element]:
        """Which language it is, where that was said."""
        said = f"code, {language}:" if self._is_plain and language else language
        return [Row(Content.styled(said, "dim"), prefix, prefix)] if said else []

    def code(self, rows: Sequence[Content], prefix: Content = EMPTY) -> Code:
        """Lines of code."""
        return Code(tuple(rows), prefix + self._code_prefix)

    def _code(self, node: SyntaxTreeNode, prefix: Content) -> list[Element]:
        lines = node.content.removesuffix("\n").expandtabs(TAB).split("\n") if node.content else []
        language = node.info.split()[0] if node.info.strip() else ""
        return [self.code(coloured(lines, language) if language else [Content(line) for line in lines], prefix)]

    def _list(self, node: SyntaxTreeNode, first: Content, rest: Content, depth: int) -> list[Element]:
        elements: list[Element] = []
        number = int(node.attrs.get("start", 1) or 0) if node.type == "ordered_list" else None
        is_loose = any(
            child.type == "paragraph" and not child.hidden for item in node.children for child in item.children
        )
        for index, item in enumerate(node.children):
            mark = Content(f"{number + index}. " if number is not None else self._bullet)
            space = Content(" " * mark.cell_length) if depth < DEEPEST else EMPTY
            if index and is_loose:
                elements.append(Blank(rest))
            before = rest if index else first
            elements += self._children(item.children, before + mark, rest + space, depth + 1, is_loose)
        return elements

    def _children(
        self, nodes: Sequence[SyntaxTreeNode], first: Content, rest: Content, depth: int, is_loose: bool = True
    ) -> list[Element]:
        if not nodes:
            return [Row(EMPTY, first, rest)]
        elements: list[Element] = []
        for index, node in enumerate(nodes):
            if index and is_loose:
                elements.append(Blank(rest))
            elements += self.build(node, rest if index else first, rest, depth)
        return elements

    def _table(self, node: SyntaxTreeNode, prefix: Content) -> Table:
        rows = [[inline(cell) for cell in row.children] for part in node.children for row in part.children]
        return Table(rows[0], rows[1:], prefix, self._is_plain)


def inline(node: SyntaxTreeNode, style: str = "") -> Content:
    """The text of a block with its styles."""
    parts: list[tuple[str, str]] = []
    for child in node.children:
        parts += _spans(child.children if child.type == "inline" else [child], style)
    return Content.assemble(*parts)


def _spans(nodes: Iterable[SyntaxTreeNode], style: str) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    for node in nodes:
        if node.type == "text":
            parts.append((node.content, style))
        elif node.type in ("softbreak", "hardbreak"):
            parts.append(("\n", style))
        elif node.type == "code_inline":
            parts.append((node.content, f"{style} {CODE_STYLE}".strip()))
        elif node.type == "image":
            parts.append((f"[image: {node.content}] ({node.attrs.get('src', '')})", style))
        elif node.type == "link":
            parts += _link(node, style)
        elif node.children:
            parts += _spans(node.children, f"{style} {_INLINE_STYLES.get(node.type, '')}".strip())
        else:
            parts.append((node.content, style))
    return parts


def _link(node: SyntaxTreeNode, style: str) -> list[tuple[str, str]]:
    """The words, and where they lead, which can differ from what they say."""
    said = _spans(node.children, f"{style} underline".strip())
    address = str(node.attrs.get("href", ""))
    return said if "".join(text for text, _ in said) == address else [*said, (f" ({address})", "dim")]
