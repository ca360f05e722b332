"""When a session's context is shortened, and what the model is asked for then (product.md C.10): pure functions."""

MAX_SUMMARY_TOKENS = 4096
MAX_TAIL_TOKENS = 50_000
_MIN_FREE_TOKENS = 8192

SUMMARY_REQUEST = """\
This conversation has to be shortened. Write down, for yourself, what you need to go on without the part that will be \
dropped. Use these headings, and leave out what does not apply:

Goal: what the user wants, in their own terms, and every constraint or preference they stated.
Files: each file that matters, by path, with what was changed in it or learned from it.
Commands: commands that matter and what they gave; jobs that still run.
Decisions: what was decided, and why; what was tried and did not work.
Next: the steps that are left, the very next one first.
Read again: what can be read or run again when it is needed, such as long files, instead of being repeated here.

Be exact about names, paths, numbers and error messages. Do not call tools, do not think aloud, and write nothing \
else."""


def needs_compaction(used_tokens: int, context_length: int, compact_at: float = 0.85) -> bool:
    """Whether so little is left that a turn, or the results of tools, should not be begun."""
    free = context_length - used_tokens
    return used_tokens >= compact_at * context_length or free <= min(_MIN_FREE_TOKENS, context_length // 4)


def tail_tokens(context_length: int) -> int:
    """How much of the end is kept word for word."""
    return min(context_length // 10, MAX_TAIL_TOKENS)


def summary_note(summary: str) -> str:
    """How the summary stands in the shortened conversation."""
    return (
        "[The conversation up to here was shortened to the summary below, which you wrote yourself; what follows it is "
        f"word for word.]\n\n{summary}\n\n[End of the summary.]"
    )
