"""The line that is typed on: several lines if need be, what was typed before, and completion of commands.

Knows no agent: it posts what the user wants. Pasted text is cleaned of what a terminal would obey.
"""

import os.path
from collections.abc import Callable, Sequence

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from whitedwarf.agent.tui.cockpit import PastLines
from whitedwarf.agent.tui.shown import shown

LONGEST_PASTE = 200_000  # characters
_NEW_LINE_KEYS = frozenset({"shift+enter", "alt+enter", "ctrl+j", "ctrl+enter"})


class Editor(TextArea):
    """`complete` gives whole lines that the text may become."""

    DEFAULT_CSS = """
    Editor { height: auto; max-height: 8; border: none; padding: 0; background: $background; }
    Editor:focus { border: none; }
    Editor .text-area--cursor-line { background: $background; }
    """

    class Sent(Message):
        """Enter."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """Ctrl+D on an empty line."""

    class Hinted(Message):
        """Something to tell beside the text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, past: PastLines, complete: Callable[[str], Sequence[str]]) -> None:
        super().__init__(id="editor", soft_wrap=True, compact=True, highlight_cursor_line=False)
        self._past_lines = past
        self._past: list[str] | None = None  # newest first, read when it is needed
        self._place = -1  # in `_past`; -1 is what is being written
        self._draft = ""
        self._complete = complete
        self._candidates: list[str] = []

    def replace_all(self, text: str) -> None:
        """Another text, with the cursor at its end."""
        self.text = text
        self.move_cursor(self.document.end)

    def remember(self, text: str) -> None:
        """It can be fetched back with Up."""
        self._place, self._draft = -1, ""
        if text.strip() and text not in self._known()[:1]:
            self._known().insert(0, text)
            self._past_lines.store_string(text)

    async def _on_key(self, event: events.Key) -> None:
        if event.key != "tab":
            self._candidates = []
        action = self._action(event.key)
        if action is None:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        action()

    def _action(self, key: str) -> Callable[[], None] | None:
        """What a key does here that a text field does not do by itself."""
        if key == "enter":
            return self._send
        if key in _NEW_LINE_KEYS:
            return lambda: self._insert("\n")
        if key == "tab":
            return self._tab
        if key == "ctrl+d" and not self.text:
            return lambda: self._post(self.Left())
        if key == "up" and self._at_first_line():
            return lambda: self._recall(1)
        if key == "down" and self._at_last_line():
            return lambda: self._recall(-1)
        return None

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = shown(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        if len(self.text) + len(text) > LONGEST_PASTE:
            self.app.bell()
            self._post(self.Hinted(f"too long to be pasted: more than {LONGEST_PASTE} characters; put it in a file"))
            return
        self._insert(text)

    def _insert(self, text: str) -> None:
        self._replace_via_keyboard(text, *self.selection)

    def _send(self) -> None:
        self._post(self.Sent(self.text))

    def _post(self, message: Message) -> None:
        self.post_message(message)

    def _at_first_line(self) -> bool:
        return self._row == 0

    def _at_last_line(self) -> bool:
        return self._row >= self.wrapped_document.height - 1

    @property
    def _row(self) -> int:
        """Where the cursor is, in lines as they are wrapped."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    def _known(self) -> list[str]:
        if self._past is None:
            self._past = [shown(line) for line in self._past_lines.load_history_strings()]
        return self._past

    def _recall(self, step: int) -> None:
        """An older text, or a newer one; the newest is what was being written."""
        place = self._place + step
        if not -1 <= place < len(self._known()):
            return
        if self._place == -1:
            self._draft = self.text
        self._place = place
        self.replace_all(self._draft if place < 0 else self._known()[place])

    def _tab(self) -> None:
        """Complete a command: as far as all candidates agree, then one after the other."""
        if self._candidates:
            self._candidates = [*self._candidates[1:], self._candidates[0]]
            self.replace_all(self._candidates[0])
            return
        line = self.text
        found = list(self._complete(line)) if line.startswith("/") and "\n" not in line else []
        if not found:
            return
        common = os.path.commonprefix(found)  # noqa: RUF071  (characters are meant)
        if len(found) == 1 or len(common) > len(line):
            self.replace_all(common)
        else:
            self._candidates = [found[-1], *found[:-1]]
        if len(found) > 1:
            self._post(self.Hinted(", ".join(found)))
