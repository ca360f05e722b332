"""Events become entries: which one a piece belongs to, when a new one begins, which have changed.

Pure but for the entries it makes; knows no widget. The newest `MOST_ENTRIES` are kept.
"""

from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Compacting,
    Drawn,
    Event,
    Notice,
    ParameterText,
    Reading,
    SessionChanged,
    ToolBegan,
    ToolCallStarted,
    ToolEnded,
    ToolOutput,
    TurnBegan,
    TurnEnded,
)
from whitedwarf.agent.tui.entries import Answered, Entry, Noted, Parted, Said, Thought
from whitedwarf.agent.tui.tool_entry import ToolEntry
from whitedwarf.conversation.events import ReasoningDelta, Repair, TextDelta, ToolCallFinished

MOST_ENTRIES = 3000
_DROPPED = 500  # at once, when there are too many


class Story:
    """`entries` from the oldest to the newest; `first_changed` is the lowest index that has to be shown again."""

    def __init__(self, is_plain: bool = False) -> None:
        self.entries: list[Entry] = []
        self._is_plain = is_plain
        self._changed: int | None = None
        self._open: Thought | Answered | None = None
        self._tools: dict[int, ToolEntry] = {}
        self._is_answer_over = False
        self._compacting: Noted | None = None
        self._session = ""

    def take_changed(self) -> int | None:
        """Since the last time; None when nothing has changed."""
        changed, self._changed = self._changed, None
        return changed

    def add(self, entry: Entry) -> None:
        """Below all others."""
        self._close()
        self.entries.append(entry)
        self._touch(len(self.entries) - 1)
        if len(self.entries) > MOST_ENTRIES:
            del self.entries[:_DROPPED]
            self.entries.insert(0, Noted("what came before is not shown any more; /history has it"))
            self._touch(0)

    def fold(self, entry: Entry, is_open: bool) -> None:
        """Show all of an entry, or as little as possible."""
        if entry.can_fold:
            entry.is_open = is_open
            self._touch(self.entries.index(entry))

    def fold_all(self, is_open: bool) -> None:
        """The same for every entry."""
        for entry in self.entries:
            if entry.can_fold:
                entry.is_open = is_open
        self._touch(0)

    def tell(self, event: Event) -> None:
        """What happens next."""
        self._begin_answer(event)
        match event:
            case TurnBegan():
                self.add(Said(event.text))
            case ReasoningDelta():
                self._thought().feed(event.text)
            case TextDelta():
                self._answer(event.text)
            case Drawn():
                if isinstance(self._open, Thought):
                    self._open.spent(event.tokens, event.seconds)
                    self._touch_entry(self._open)
            case AnswerEnded():
                self._end_answer(event)
            case Notice():
                self.add(Noted(event.text, event.is_error))
            case Repair():
                self.add(Noted(f"put right: {event.kind.value.replace('_', ' ')}"))
            case Compacting():
                self._compact(event)
            case SessionChanged():
                self._change_session(event)
            case TurnEnded():
                self._end_turn()
            case _:
                self._tell_tool(event)

    def _tell_tool(self, event: Event) -> None:
        match event:
            case ToolCallStarted():
                self._tool(event.index, event.name)
            case ParameterText():
                self._tool(event.index, "call").write(event.parameter, event.text, event.is_closed)
            case ToolCallFinished():
                self._tool(event.index, event.name).written()
            case ToolBegan():
                self._tool(event.index, event.name).begin(event.summary, event.arguments)
            case ToolOutput():
                self._tool(event.index, "call").print(event.text)
            case ToolEnded():
                self._tool(event.index, event.name).end(event.text, event.is_error, event.seconds, event.diff)
            case _:
                return

    def ask(self, is_asking: bool) -> None:
        """The call in hand waits until the user allows it, or does no longer."""
        for entry in self._tools.values():
            if entry.ask(is_asking):
                self._touch_entry(entry)

    def _begin_answer(self, event: Event) -> None:
        """Calls are counted from 0 in each answer."""
        if self._is_answer_over and isinstance(event, Reading | Drawn | ReasoningDelta | TextDelta | ToolCallStarted):
            self._is_answer_over = False
            self._tools = {}

    def _thought(self) -> Thought:
        if not isinstance(self._open, Thought):
            thought = Thought(self._is_plain)
            self.add(thought)
            self._open = thought
        self._touch_entry(self._open)
        return self._open

    def _answer(self, text: str) -> None:
        if not isinstance(self._open, Answered):
            if not text.strip():
                return
            text = text.lstrip("\n")
            answer = Answered(self._is_plain)
            self.add(answer)
            self._open = answer
        self._open.feed(text)
        self._touch_entry(self._open)

    def _tool(self, index: int, name: str) -> ToolEntry:
        if index not in self._tools:
            entry = ToolEntry(name, self._is_plain)
            self.add(entry)
            self._tools[index] = entry
        self._touch_entry(self._tools[index])
        return self._tools[index]

    def _end_answer(self, event: AnswerEnded) -> None:
        self._close()
        self._is_answer_over = True
        if event.end is AnswerEnd.CALLS:
            return
        for entry in self._tools.values():
            if not entry.is_over:
                entry.drop(event.fault)
                self._touch_entry(entry)
        if event.fault and not self._tools:
            self.add(Noted(f"the answer cannot be used, which the model is told: {event.fault}"))

    def _end_turn(self) -> None:
        self._close()
        self._compacting = None
        for entry in self._tools.values():
            entry.drop("the turn has ended")
            self._touch_entry(entry)
        self._tools = {}

    def _compact(self, event: Compacting) -> None:
        if self._compacting is None or self.entries[-1] is not self._compacting:
            self._compacting = Noted("")
            self.add(self._compacting)
        if event.step == "summary":
            self._compacting.text = f"COMPACTING: a summary is written, {event.done} tokens"
        else:
            self._compacting.text = f"COMPACTING: {event.done} of {event.total} tokens are read again"
        self._touch_entry(self._compacting)

    def _change_session(self, event: SessionChanged) -> None:
        if self._session and event.id != self._session:
            words = f"Session {event.id[:8]}: {event.title}" if event.id else "New session"
            self.add(Parted(words, self._is_plain))
        self._session = event.id

    def _close(self) -> None:
        if self._open is not None:
            self._open.finish()
            self._touch_entry(self._open)
            self._open = None

    def _touch_entry(self, entry: Entry) -> None:
        for index in range(len(self.entries) - 1, -1, -1):
            if self.entries[index] is entry:
                return self._touch(index)
        return None

    def _touch(self, index: int) -> None:
        self._changed = index if self._changed is None else min(self._changed, index)
