"""What has to be true after every scenario, whatever happened in it. AssertionError says which promise was broken."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Compacting,
    Event,
    Notice,
    QueueChanged,
    SessionChanged,
    ToolBegan,
    ToolCallStarted,
    ToolEnded,
    ToolOutput,
    TurnBegan,
    TurnEnded,
)
from whitedwarf.conversation.events import ToolCallFinished
from whitedwarf.engine.request import FinishReason
from whitedwarf.engine.scripted_job import Received
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

_TOLD = r"<tool_result>(Tool result \d+ \(\w*\):\n)?({}</tool_result>|Tool error: the result has \d)"
_AT_ANY_TIME = (Notice, QueueChanged, Compacting, SessionChanged)
PATIENCE_S = 30.0


def check_turns(events: Sequence[Event]) -> None:
    """Turns begin and end by turns; everything of a turn is within it, and tools run between answers."""
    is_in_turn = is_in_tool = False
    refusals = 0  # words that were not sent have an end and no beginning, and say why
    for event in events:
        match event:
            case TurnBegan():
                assert not is_in_tool, "a turn began while a tool ran"
                is_in_turn = True
            case TurnEnded():
                assert is_in_turn or refusals, "a turn ended that had not begun"
                assert not is_in_tool
                is_in_turn, refusals = False, 0
            case Notice(_, is_error):
                refusals += is_error
            case ToolBegan():
                assert is_in_turn
                assert not is_in_tool
                is_in_tool = True
            case ToolEnded():
                assert is_in_tool
                is_in_tool = False
            case ToolOutput():
                assert is_in_tool
            case _:
                assert is_in_turn or isinstance(event, _AT_ANY_TIME), f"{event} outside of a turn"
    assert not is_in_turn, "a turn never ended"


def check_every_call_has_a_result(events: Sequence[Event]) -> None:
    """Each call of an answer that counts is told as run, in its order; none of a faulty answer is."""
    called: list[tuple[int, str]] = []
    started: list[tuple[int, str]] = []
    open_calls: list[tuple[int, str]] = []
    for event in events:
        match event:
            case ToolCallStarted(index, name):
                started.append((index, name))
            case ToolCallFinished(index, name):
                called.append((index, name))
            case AnswerEnded(end):
                assert not open_calls, f"{open_calls} were never run"
                assert all(one in started for one in called), "a call ended that had not begun"
                counts = end in (AnswerEnd.CALLS, AnswerEnd.REFUSED, AnswerEnd.INTERRUPTED)
                open_calls = list(called) if counts else []
                called, started = [], []
            case ToolBegan(index, name):
                assert open_calls[:1] == [(index, name)], f"{name} was run, but {open_calls} were called"
            case ToolEnded(index, name):
                assert open_calls.pop(0) == (index, name)
    assert not open_calls, f"{open_calls} were never run"


@dataclass
class Lines:
    """The requests of an engine, sorted: `answers` are those of the conversation itself, the others of compactions."""

    tokenizer: Tokenizer
    received: Sequence[Received]
    begins: frozenset[int] = frozenset()  # before these requests another session was begun, or gone on with
    now: list[int] = field(default_factory=list)  # what the model has read and said of the conversation
    drawn: list[tuple[int, int]] = field(default_factory=list)  # where in `now` the answers are
    answers: list[Received] = field(default_factory=list)

    def __post_init__(self) -> None:
        for index, request in enumerate(self.received):
            if index in self.begins:
                self.now, self.drawn = [], []
            if _is_rebuild(request):
                self._take_rebuild(request)
            elif self._is_summary(request):
                self._check_extends(request)
            else:
                self._take_answer(request)
        if len(self.received) in self.begins:
            self.now, self.drawn = [], []

    def check_transcript(self, transcript: Sequence[int]) -> None:
        """The transcript is what the model has read and said, then what is still to be read; every answer is closed."""
        ids = list(transcript)
        assert ids[: len(self.now)] == self.now, "the transcript is not what the engine has read and drawn"
        eos, close = (self.tokenizer.special_id(token) for token in (SpecialToken.EOS, SpecialToken.THINK_CLOSE))
        for begin, end in self.drawn:
            assert eos not in ids[begin:end], "an answer went on behind its end"
            after = ids[end : end + 2]
            assert after[:1] == [eos] or after == [close, eos], f"the answer up to token {end} is not closed"
        inside = {place for begin, end in self.drawn for place in range(begin, end)}
        ends = sum(token == eos for place, token in enumerate(ids) if place not in inside)
        start = self.tokenizer.special_id(SpecialToken.ASSISTANT)
        starts = sum(token == start for place, token in enumerate(ids) if place not in inside)
        assert ends == starts, f"{starts} answers and {ends} ends"

    def check_results_were_told(self, events: Sequence[Event], transcript: Sequence[int]) -> None:
        """Each result stands behind its answer, word for word, unless it was too large; or that the last were."""
        told = [request for request in self.answers if request.finish is not FinishReason.ERROR]
        ended = [index for index, event in enumerate(events) if isinstance(event, AnswerEnded)]
        assert len(told) == len(ended), "an answer that was drawn was not told, or told twice"
        for number, index in enumerate(ended):
            until = ended[number + 1] if number + 1 < len(ended) else len(events)
            results = [event.text for event in events[index:until] if isinstance(event, ToolEnded)]
            fault = events[index]
            ids = told[number + 1].ids if number + 1 < len(told) else transcript
            self._check_told(results, getattr(fault, "fault", ""), self.tokenizer.decode(list(ids)))

    def _check_told(self, results: Sequence[str], fault: str, text: str) -> None:
        place = 0
        for number, result in enumerate(results):
            found = re.compile(_TOLD.format(re.escape(_as_read(result))), re.DOTALL).search(text, place)
            if found is None:
                left_out = f"Tool error: the results of the last {len(results) - number} calls are left out"
                assert text.find(left_out, place) >= 0, f"the model was never told: {result[:200]}"
                break
            place = found.start() + 1
        if fault:
            assert text.find(f"<tool_result>Tool error: {fault}", place) >= 0, f"the model was never told: {fault}"

    def _take_rebuild(self, request: Received) -> None:
        if request.finish is FinishReason.LENGTH:
            self.now, self.drawn = list(request.ids), []

    def _is_summary(self, request: Received) -> bool:
        return self.tokenizer.special_id(SpecialToken.DSML) in request.options.stop_ids

    def _check_extends(self, request: Received) -> None:
        assert list(request.ids[: len(self.now)]) == self.now, f"request {request.number} reads something again"
        assert request.reused_tokens is None or request.reused_tokens >= min(len(self.now), len(request.ids) - 1)

    def _take_answer(self, request: Received) -> None:
        self._check_extends(request)
        self.answers.append(request)
        if not request.generated_ids and request.finish is not FinishReason.STOP:
            # it was never begun: the words stay, the start of the answer goes
            self.now = list(request.ids[: max(len(self.now), min(request.processed_tokens, len(request.ids) - 2))])
            return
        begin = len(request.ids)
        self.now = [*request.ids, *request.generated_ids]
        self.drawn.append((begin, len(self.now)))


def _as_read(text: str) -> str:
    """Half of a surrogate pair cannot be said in tokens."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _is_rebuild(request: Received) -> bool:
    return request.options.max_tokens == 0


@dataclass
class Surroundings:
    """What there is around a scenario: threads, child processes, and the files that it must leave alone."""

    folder: Path
    but: Sequence[Path]
    threads: set[threading.Thread] = field(default_factory=lambda: set(threading.enumerate()))
    children: set[int] = field(default_factory=lambda: _children())
    files: dict[str, tuple[int, int, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files = self._seen()

    def check_left_alone(self) -> None:
        _wait_until_none(lambda: [one.name for one in set(threading.enumerate()) - self.threads], "threads")
        _wait_until_none(lambda: sorted(_children() - self.children), "processes")
        assert self._seen() == self.files, "files outside of the workspace were touched"

    def _seen(self) -> dict[str, tuple[int, int, bytes]]:
        found = {}
        for path in sorted(self.folder.rglob("*")):
            if any(path == one or one in path.parents for one in self.but):
                continue
            status = path.lstat()
            is_file = path.is_file() and not path.is_symlink()
            found[str(path)] = (status.st_mode, 0 if path.is_dir() else status.st_mtime_ns, _bytes(path, is_file))
        return found


def _bytes(path: Path, is_file: bool) -> bytes:
    return path.read_bytes() if is_file else b""


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def _wait_until_none(left: Callable[[], Sequence[object]], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := left()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not found, f"{what} were left: {found}"
