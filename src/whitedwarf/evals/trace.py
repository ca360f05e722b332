"""The trace of an exam: a header, a block for each asking as soon as it has ended, and a summary.

A heading is a line `===== … =====`; facts are lines `key=value`; texts are blocks between `NAME_BEGIN bytes=N` and
`NAME_END`, the bytes as they are, so nothing in a text can pass for markup to who reads by the counts
(trace_reader.py). Promises: only its owner may read it; no earlier file is overwritten; one exam at a time writes it;
each block goes to the disk whole before the next case is asked, so a kill costs one case at most; one that could not be
written whole is taken back.
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from whitedwarf.errors import UsageError
from whitedwarf.evals.budget import Limits
from whitedwarf.evals.exam import Seat, Watcher
from whitedwarf.evals.prompts import SYSTEM_PROMPT, question_prompt
from whitedwarf.evals.target import Asking, TargetFacts
from whitedwarf.gguf.file_lock import try_lock

HEADER, SUMMARY = "EVAL TRACE", "SUMMARY"
FORMAT = 1
Facts = Mapping[str, object]
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # a pipe without a reader would hold us up


def header_facts(
    target: TargetFacts, asking: Asking, limits: Limits, *, num_cases: int, max_prompt_tokens: int | None
) -> dict[str, object]:
    """What the header says; all but the moment has to be the same for a trace that is gone on with."""
    return {
        "format": FORMAT,
        "model": target.model,
        "shape": target.shape,
        "backend": target.backend,
        "ctx": target.context_tokens,
        "max_tokens": asking.max_tokens,
        "max_prompt_tokens": max_prompt_tokens,
        "questions": num_cases,
        "sampling": asking.sampling,
        "seed": asking.seed,
        "think_mode": asking.thinking,
        "soft_limit_reply_budget": limits.soft,
        "hard_limit_reply_budget": limits.hard,
        "soft_limit_think_close_rank": limits.rank,
    }


def check_is_new(path: Path) -> None:
    """UsageError where something has that name: hours of answers are not overwritten by a line repeated."""
    if os.path.lexists(path):
        raise UsageError(f"--trace {path}: exists already; give another name, or go on with it: --resume-trace {path}")


class TraceFile(Watcher):
    """An open trace; close it. `failure` says why it could not be written any more, None while all is well."""

    def __init__(self, descriptor: int, num_cases: int, asking: Asking) -> None:
        self.failure: str | None = None
        self._descriptor = descriptor
        self._num_cases = num_cases
        self._asking = asking

    @classmethod
    def create(cls, path: Path, header: Facts, num_cases: int, asking: Asking) -> "TraceFile":
        """A new one with its header; UsageError where something has that name, or it cannot be written."""
        check_is_new(path)
        trace = cls(_opened(path, _FLAGS | os.O_EXCL), num_cases, asking)
        started = {"started_unix": int(datetime.now(UTC).timestamp())}
        trace._write(heading(HEADER) + fact_lines(started | dict(header)))
        if trace.failure is not None:
            trace.close()
            raise UsageError(f"--trace {path}: {trace.failure}; give another place")
        return trace

    @classmethod
    def go_on(cls, path: Path, size_bytes: int, end_bytes: int, num_cases: int, asking: Asking) -> "TraceFile":
        """An earlier one, from its last whole block on. UsageError where it has another size than when it was read."""
        descriptor = _opened(path, _FLAGS)
        try:
            if os.fstat(descriptor).st_size != size_bytes:
                raise UsageError(f"{path}: another exam has written it meanwhile; run the same command again")
            os.ftruncate(descriptor, end_bytes)
            os.lseek(descriptor, end_bytes, os.SEEK_SET)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, num_cases, asking)

    def on_end(self, seat: Seat) -> None:
        """The block of this asking."""
        self._write(case_block(seat, self._num_cases, self._asking))

    def finish(self, summary: Facts) -> None:
        """The end of the trace."""
        self._write(b"\n" + heading(SUMMARY) + fact_lines(summary))

    def close(self) -> None:
        """Again does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, data: bytes) -> None:
        if self.failure is not None or self._descriptor < 0:
            return
        start = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except OSError as error:
            self.failure = error.strerror or str(error)
            self._take_back(start)
        except BaseException:  # SIGTERM: a summary may follow
            self._take_back(start)
            raise

    def _take_back(self, start: int) -> None:
        """What was written from there on; as far as the disk lets us."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, start)
            os.lseek(self._descriptor, start, os.SEEK_SET)


def case_block(seat: Seat, num_cases: int, asking: Asking) -> bytes:
    """Everything about one asking that has ended."""
    case = seat.case
    parts = [
        b"\n",
        heading(f"CASE {seat.number}/{num_cases} {case.name}"),
        fact_lines(_case_facts(seat, asking)),
        text_block("SYSTEM_PROMPT", SYSTEM_PROMPT.encode()),
        text_block("QUESTION_PROMPT", question_prompt(case).encode("utf-8", "replace")),
        text_block("MODEL_OUTPUT", bytes(seat.answer.output)),
    ]
    return b"".join(parts)


def heading(text: str) -> bytes:
    """A line that begins a part."""
    return f"===== {text} =====\n".encode("utf-8", "replace")


def fact_lines(facts: Facts) -> bytes:
    """A line for each; what is None is empty. Line ends in values become blanks."""
    lines = [f"{key}={'' if value is None else ' '.join(str(value).split())}\n" for key, value in facts.items()]
    return "".join(lines).encode("utf-8", "replace")


def text_block(name: str, data: bytes) -> bytes:
    """The bytes as they are, with their number; the line end before the end mark is not one of them."""
    return f"{name}_BEGIN bytes={len(data)}\n".encode() + data + f"\n{name}_END\n".encode()


def _case_facts(seat: Seat, asking: Asking) -> dict[str, object]:
    case, answer, ending = seat.case, seat.answer, seat.ending
    assert ending is not None
    facts: dict[str, object] = {
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "source": case.source,
        "id": case.id,
        "domain": case.domain,
        "title": case.title,
        "status": ending.status,
        "picked": ending.given,
        "expected": case.answer,
        "prompt_tokens": answer.prompt_tokens,
        "generated_tokens": answer.generated_tokens,
        "elapsed_s": f"{ending.elapsed_s:.3f}",
        "sampling": asking.sampling,
        "think_mode": answer.think_mode,
        "think_close": answer.closed.kind,
        "think_close_token": answer.closed.token_index,
        "think_close_remaining": answer.closed.remaining,
        "think_close_rank": answer.closed.rank,
        "attempts": answer.num_attempts,
    }
    if ending.error or answer.trouble:
        facts["error"] = ending.error or answer.trouble
    return facts | ({"choices": len(case.choices)} if case.kind == "choice" else {"answer_kind": case.kind})


def _opened(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | _NONBLOCK, 0o600)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; give the name of a file") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"cannot write {path}: it is no regular file; give the name of a file")
    if not try_lock(descriptor):
        os.close(descriptor)
        raise UsageError(f"cannot write {path}: another exam is writing it; wait for that one, or end it")
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, 0o600)
    return descriptor
