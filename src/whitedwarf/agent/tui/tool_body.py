"""What a call carries, while the model writes it: commands after "$", code with colours, edits with - and +."""

from textual.content import Content

from whitedwarf.agent.tui.code import StreamingCode
from whitedwarf.agent.tui.elements import Code, Element, Row, marked
from whitedwarf.agent.tui.growing_text import LONGEST_LINE
from whitedwarf.agent.tui.shown import TAB, one_line, shortened, shown

_CODE_SIGNS = {
    ("write", "content"): ("+ ", "$text-success"),
    ("edit", "old"): ("- ", "$text-error"),
    ("edit", "new"): ("+ ", "$text-success"),
}
_COMMANDS = {"bash": "command"}
_TITLES = ("path", "query", "url", "job")
_LONGEST_VALUE = 200  # characters of a parameter that has no form of its own


class ToolBody:
    """The parameters of one call, in the order in which they come."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._texts: dict[str, str] = {}
        self._codes: dict[str, StreamingCode] = {}

    @property
    def title(self) -> str:
        """What the call is about, as soon as it is known."""
        return next((shortened(one_line(self._texts[name]), 120) for name in _TITLES if self._texts.get(name)), "")

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come yet."""
        return not self._texts and not self._codes

    def feed(self, parameter: str, text: str, is_closed: bool) -> None:
        """More of a parameter."""
        if (self._tool, parameter) in _CODE_SIGNS:
            if parameter not in self._codes:
                self._codes[parameter] = StreamingCode(path=self._texts.get("path", "").strip())
            self._codes[parameter].feed(text)
            if is_closed:
                self._codes[parameter].finish()
        elif len(self._texts.get(parameter, "")) <= LONGEST_LINE:
            self._texts[parameter] = self._texts.get(parameter, "") + text

    def elements(self, most_rows: int) -> list[Element]:
        """The last rows of it."""
        rows = [element for name, text in self._texts.items() for element in self._row(name, text)]
        return [*rows, *self._code(most_rows)]

    def _row(self, name: str, text: str) -> list[Element]:
        if _COMMANDS.get(self._tool) == name:
            return [Row(Content.styled(shown(text).expandtabs(TAB), "bold"), Content("  $ "), Content("    "))]
        if name in _TITLES:
            return []
        return [
            Row(Content.styled(f"{one_line(name)}: {shortened(one_line(text), _LONGEST_VALUE)}", "dim"), Content("  "))
        ]

    def _code(self, most_rows: int) -> list[Element]:
        rows: list[Content] = []
        for name, code in self._codes.items():
            sign, style = _CODE_SIGNS[(self._tool, name)]
            before = Content.styled("  " + sign, style)
            lines = [*code.lines[-most_rows:], *([code.partial] if code.partial.plain else [])]
            rows += [before + (marked(line) if name == "old" else line) for line in lines]
        left_out = sum(len(code.lines) for code in self._codes.values()) - most_rows
        head = [Row(Content.styled(f"  … {left_out} lines above", "dim"))] if left_out > 0 else []
        return [*head, Code(rows[-most_rows:])] if rows else []
