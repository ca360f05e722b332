"""At which lengths of a prompt the reading pauses to remember it, and where an answer is: pure arithmetic.

Every pause costs a shorter pass, so only where others may branch off: where a known prompt parted from this one, where
the request says a message ends, once early (two short prompts with one system prompt), and at the ends of chunks, where
a pass ends anyhow. An answer pauses anyhow, but a copy of its state costs time and room.
"""

from collections.abc import Iterable

FIRST_STOP = 256  # of any prompt; also the least distance of named positions and of chunk ends
STEP_BACK = 16  # as far as states go back by themselves: no second stop that near before another
MIN_PARTING = 64  # tokens that a stop must save another prompt, so that it is made, or waited for, on purpose
ANSWER_STEP = 2048  # tokens of prompt and answer that a crash may cost; a divisor of the step that stores save at
COLD_SHARE = 8  # a prompt of which less than one part in so many was known is read as if nothing of it were


def is_cold(length: int, reused: int) -> bool:
    """Whether next to nothing of a prompt was known: any two of them share their first tokens."""
    return reused * COLD_SHARE < length


def is_answer_stop(position: int) -> bool:
    """Whether an answer is remembered when prompt and answer are that long together."""
    return position % ANSWER_STEP == 0


def tokens_to_answer_stop(position: int) -> int:
    """How many tokens on an answer is remembered next."""
    return ANSWER_STEP - position % ANSWER_STEP


def prompt_stops(length: int, start: int, named: Iterable[int], parting: int, chunk_tokens: int) -> tuple[int, ...]:
    """Ascending positions in (start, length], the last one `length` itself.

    `start` tokens are reused, up to `parting` they are those of an earlier prompt.
    """
    stops = {FIRST_STOP, *range(0, length, _step(chunk_tokens)), *_spaced(sorted(named))}
    if parting - start >= MIN_PARTING:
        stops.add(parting)
    return (*sorted(stop for stop in stops if start < stop < length - STEP_BACK), length)


def _step(chunk_tokens: int) -> int:
    """The smallest multiple of `chunk_tokens` that is worth remembering."""
    return chunk_tokens * -(-FIRST_STOP // chunk_tokens)


def _spaced(named: list[int]) -> list[int]:
    """The first, the last, and of the others those far enough behind the one before."""
    kept: list[int] = []
    for position in named:
        if not kept or position - kept[-1] >= FIRST_STOP or position == named[-1]:
            kept.append(position)
    return kept
