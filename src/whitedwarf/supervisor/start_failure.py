"""What a child's end during its start means: is it worth another try, and what is said about it. Pure."""

import re
from collections.abc import Sequence

from whitedwarf.supervisor.failures import StartFailedError

_TAIL_LINES = 20
_WRONG_ARGUMENTS = 2
_NO_PROGRAM = (126, 127)  # shells and env say so
_REFUSED = 1
_OUR_REFUSAL = "whitedwarf: "  # how our own engine begins its last line, where it has looked at what it was told
_PORT_TAKEN = re.compile(
    r"couldn't bind HTTP server socket|address already in use|only one usage of each socket address"
    r"|cannot listen on \S+ port \d+",
    re.IGNORECASE,
)
_NO_MEMORY = re.compile(
    r"out of memory|outofmemory|cudamalloc failed|unable to allocate|failed to allocate|bad_alloc|not enough memory"
    r"|cannot allocate memory|insufficient memory",
    re.IGNORECASE,
)
_PERMANENT = re.compile(
    r"failed to load model|invalid argument|failed to (?:create|measure) MTP context|failed to create_context"
    r"|failed to create context|no such file or directory|unknown (option|argument)|expected a GGUF",
    re.IGNORECASE,
)


def is_port_taken(log: Sequence[str]) -> bool:
    """Whether the child ended because somebody else had its port."""
    return any(_PORT_TAKEN.search(line) for line in log)


def is_out_of_memory(log: Sequence[str]) -> bool:
    """Whether it ended because there was too little memory, which may be there in a moment."""
    return any(_NO_MEMORY.search(line) for line in log)


def is_permanent(exit_code: int, log: Sequence[str]) -> bool:
    """Whether the next start would end alike. Memory may come back; who was ended by a signal did not choose to."""
    if is_out_of_memory(log) or is_port_taken(log) or exit_code < 0:
        return False
    if exit_code == _REFUSED and log and log[-1].startswith(_OUR_REFUSAL):
        return True
    return exit_code in (_WRONG_ARGUMENTS, *_NO_PROGRAM) or any(_PERMANENT.search(line) for line in log)


def ended(key: str, exit_code: int, log: Sequence[str]) -> StartFailedError:
    """The child ended before it was ready."""
    how = f"with exit code {exit_code}" if exit_code >= 0 else f"by signal {-exit_code}"
    return failure(key, f"its server ended {how} while it started", log, permanent=is_permanent(exit_code, log))


def failure(key: str, why: str, log: Sequence[str] = (), *, permanent: bool) -> StartFailedError:
    """A model that did not come up, with the child's last words."""
    tail = tuple(log[-_TAIL_LINES:])
    said = f"; its last words: {_last_words(tail)}" if tail else ""
    return StartFailedError(f"model {key!r} did not start: {why}{said}", is_permanent=permanent, log_tail=tail)


def _last_words(tail: Sequence[str]) -> str:
    """The line that says most: the last that speaks of an error, else the last.

    A llama-server that could not load says first what was wrong, then in each of its layers that something was.
    """
    telling = [line for line in tail if re.search(r"error|fail|invalid|unable|cannot|couldn't", line, re.IGNORECASE)]
    has_layers = bool(telling) and "exiting due to" in telling[-1]
    return (telling or list(tail))[0 if has_layers else -1].strip()[:300]
