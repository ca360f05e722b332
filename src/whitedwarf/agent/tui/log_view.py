"""The story on the screen: a long list of lines of which only those in sight are drawn.

Promises: what has not changed is not wrapped again; after a change of width only what is in sight is wrapped at once,
the rest in slices; who has scrolled up keeps their place, whatever comes below or is folded above.
"""

import time
from bisect import bisect_right
from itertools import accumulate

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.visual import RenderOptions

from whitedwarf.agent.tui.entries import Entry
from whitedwarf.agent.tui.story import Story

MOST_STRIPS = 1000
SLICE_S = 0.01  # of wrapping at a time
_BETWEEN_SLICES_S = 0.03


class LogView(ScrollView, can_focus=False):
    """Shows a story; `sync` brings it up to date."""

    DEFAULT_CSS = """
    LogView {
        height: 1fr; overflow-x: hidden; overflow-y: scroll; padding: 0 0 0 1;
        scrollbar-size-vertical: 1; scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-color: $panel-lighten-2;
    }
    """
    ALLOW_SELECT = True

    class Folded(Message):
        """Somebody has clicked at an entry."""

        def __init__(self, entry: Entry) -> None:
            super().__init__()
            self.entry = entry

    def __init__(self, story: Story) -> None:
        super().__init__(id="log")
        self._story = story
        self._lines: list[list[Content]] = []  # of each entry
        self._starts: list[int] = []  # the line at which each begins
        self._stale: set[int] = set()  # entries whose lines are for another width
        self._width = 0
        self._strips: dict[tuple[int, int], tuple[Content, Strip]] = {}  # by line and identity of its content
        self.is_following = True

    def sync(self) -> None:
        """Show what has changed."""
        changed = self._story.take_changed()
        if changed is not None:
            self._update(changed)

    def follow(self) -> None:
        """Go to the end, and stay there."""
        self.is_following = True
        self._go_to_end()

    def scroll_by(self, lines: int) -> None:
        """Up (negative) or down; at the end, following begins again."""
        self.scroll_to(y=self.scroll_y + lines, animate=False, immediate=True)
        self.is_following = self.scroll_y >= self.max_scroll_y

    @property
    def page(self) -> int:
        """Lines of a page, one of which stays in sight."""
        return max(1, self.scrollable_content_region.height - 1)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever scrolls, with whatever: following ends when the end is out of sight."""
        super().watch_scroll_y(old_value, new_value)
        if round(new_value) < self.max_scroll_y:
            if new_value < old_value:
                self.is_following = False
        else:
            self.is_following = True

    def on_resize(self, event: events.Resize) -> None:
        """Another width: what is in sight is wrapped now."""
        width = self.scrollable_content_region.width
        if width != self._width and width > 0:
            self._width = width
            self._stale = set(range(len(self._lines)))
        self._update(len(self._lines))
        self._wrap_slice()

    def on_click(self, event: events.Click) -> None:
        """Open or fold what was clicked at."""
        index = self._entry_at(round(self.scroll_y) + event.y)
        if index is not None and not self.text_selection:
            self.post_message(self.Folded(self._story.entries[index]))

    def render_line(self, y: int) -> Strip:
        """One line of those in sight."""
        line = round(self.scroll_y) + y
        width = self.scrollable_content_region.width
        content = self._line(line)
        if content is None:
            return Strip.blank(self.size.width, self.rich_style)
        known = self._strips.get((line, id(content)))
        if known is not None and known[0] is content and known[1].cell_length == width:
            return known[1]
        strip = self._strip(content, line, max(1, width))
        if len(self._strips) > MOST_STRIPS:
            self._strips.clear()
        self._strips[line, id(content)] = content, strip
        return strip

    def _strip(self, content: Content, line: int, width: int) -> Strip:
        if (selection := self.text_selection) is not None and (span := selection.get_span(line)) is not None:
            start, end = span
            style = self.screen.get_visual_style("screen--selection")
            content = content.stylize(style, start, len(content.plain) if end == -1 else end)
        options = RenderOptions(self._get_style, {"text_wrap": "nowrap", "text_overflow": "clip"})
        strip = content.render_strips(width, 1, self.visual_style, options)[0]
        return strip.crop_extend(0, width, self.rich_style).apply_offsets(0, line)

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self._strips.clear()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text."""
        return selection.extract("\n".join(line.plain for lines in self._lines for line in lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Show it."""
        self._strips.clear()
        self.refresh()

    @property
    def plain_lines(self) -> list[str]:
        """All of the story as it is wrapped now."""
        return [line.plain for lines in self._lines for line in lines]

    def _update(self, changed: int) -> None:
        if self._width <= 0:  # there is no room yet; `on_resize` comes
            self._lines = []
            return
        place = self._place()
        entries = self._story.entries
        changed = min(changed, len(self._lines))
        before = self._lines[changed:]
        del self._lines[changed:]
        self._lines += [entry.lines(self._width) for entry in entries[changed:]]
        self._stale -= set(range(changed, len(entries)))
        self._settle(place)
        self._refresh_from(changed, before)

    def _settle(self, place: tuple[Entry | None, int]) -> None:
        """After lines have changed: measure again, and keep what was in sight where it was."""
        lengths = [len(lines) for lines in self._lines]
        self._starts = list(accumulate(lengths, initial=0))[:-1]
        self._measure(Size(self._width, sum(lengths)))
        if self.is_following:
            self._go_to_end()
        else:
            self._return_to(place)

    def _measure(self, size: Size) -> None:
        """Another length of the story changes no layout, so none is asked for, which `virtual_size` would do."""
        if size != self.virtual_size:
            self.set_reactive(ScrollView.virtual_size, size)
            self._scroll_update(size)

    def _refresh_from(self, changed: int, before: list[list[Content]]) -> None:
        """Draw what is new: from the first line that is another one. Scrolling draws everything anyway."""
        same = 0
        for old_lines, lines in zip(before, self._lines[changed:], strict=False):
            count = next(
                (i for i, (old, new) in enumerate(zip(old_lines, lines, strict=False)) if old is not new), None
            )
            same += min(len(old_lines), len(lines)) if count is None else count
            if count is not None or len(old_lines) != len(lines):
                break
        first = (self._starts[changed] if changed < len(self._starts) else 0) + same
        top = max(0, first - round(self.scroll_y))
        height = self.size.height
        if top < height:
            self.refresh(Region(0, top, self.size.width, height - top))

    def _go_to_end(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)

    def _place(self) -> tuple[Entry | None, int]:
        """The entry at the top, and how many of its lines are above that."""
        top = round(self.scroll_y)
        index = self._entry_at(top)
        entries = self._story.entries
        if index is None or index >= len(entries):
            return None, 0
        return entries[index], top - self._starts[index]

    def _return_to(self, place: tuple[Entry | None, int]) -> None:
        entry, offset = place
        for index, candidate in enumerate(self._story.entries):
            if candidate is entry:
                line = self._starts[index] + min(offset, max(0, len(self._lines[index]) - 1))
                self.scroll_to(y=line, animate=False, immediate=True, force=True)
                return

    def _entry_at(self, line: int) -> int | None:
        index = bisect_right(self._starts, line) - 1
        return index if 0 <= index < len(self._lines) and line - self._starts[index] < len(self._lines[index]) else None

    def _line(self, line: int) -> Content | None:
        index = self._entry_at(line)
        return None if index is None else self._lines[index][line - self._starts[index]]

    def _wrap_slice(self) -> None:
        """Wrap stale entries, those in sight first, until the slice is used up; more of them later."""
        if not self._stale:
            return
        place = self._place()
        top = self._entry_at(round(self.scroll_y)) or 0
        until = time.monotonic() + SLICE_S
        in_sight = self._sight()
        for index in sorted(self._stale, key=lambda number: abs(number - top)):
            if index not in in_sight and time.monotonic() > until:
                break
            self._lines[index] = self._story.entries[index].lines(self._width)
            self._stale.discard(index)
        self._settle(place)
        self.refresh()
        if self._stale:
            self.set_timer(_BETWEEN_SLICES_S, self._wrap_slice)

    def _sight(self) -> range:
        height = self.scrollable_content_region.height
        if self.is_following:  # the last entries that fill the screen
            first = len(self._lines)
            while first > 0 and height > 0:
                first -= 1
                height -= len(self._lines[first])
            return range(first, len(self._lines))
        top = round(self.scroll_y)
        first = self._entry_at(top) or 0
        return range(first, (self._entry_at(top + height) or len(self._lines)) + 1)
