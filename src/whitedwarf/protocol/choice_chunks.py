"""The chunks of several choices of one request, as OpenAI's Chat and Completions number them.

Promises: each chunk has the number of its choice; usage is told once, with what ends the last choice, in the form in
which one choice alone would tell it: prompt tokens count once, completion tokens of all choices. An error passes as it
is. Does not know what a choice says.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Chunk = dict[str, Any]


class ChoiceChunks:
    """Of one request with `num_choices` choices, each told by a stream of its own."""

    def __init__(self, num_choices: int) -> None:
        self._num_choices = num_choices
        self._usages: dict[int, Mapping[str, Any]] = {}  # by the numbers of the choices that have ended
        self._names_usage = True  # also where it is null

    def told(self, number: int, chunks: Iterable[Chunk]) -> list[Chunk]:
        """What is sent for these chunks of choice `number`."""
        return [sent for chunk in chunks for sent in self._sent(number, chunk)]

    def _sent(self, number: int, chunk: Chunk) -> list[Chunk]:
        if "error" in chunk:
            return [chunk]
        numbered = {**chunk, "choices": [{**choice, "index": number} for choice in chunk["choices"]]}
        usage = chunk.get("usage")
        if usage is None:
            self._names_usage = "usage" in chunk
            return [numbered]
        self._usages[number] = usage
        if len(self._usages) == self._num_choices:
            return [{**numbered, "usage": added_usage([self._usages[each] for each in range(self._num_choices)])}]
        return [self._without_usage(numbered)] if numbered["choices"] else []

    def _without_usage(self, chunk: Chunk) -> Chunk:
        if self._names_usage:
            return {**chunk, "usage": None}
        return {name: value for name, value in chunk.items() if name != "usage"}


def added_usage(usages: list[Mapping[str, Any]]) -> dict[str, Any]:
    """One prompt and all answers. What was known of the prompt is what the first choice found: the request paid no
    more than it did."""
    first = usages[0]
    completion_tokens = sum(usage["completion_tokens"] for usage in usages)
    added = {
        **first,
        "completion_tokens": completion_tokens,
        "total_tokens": first["prompt_tokens"] + completion_tokens,
    }
    if "completion_tokens_details" in first:
        reasoning = sum(usage["completion_tokens_details"]["reasoning_tokens"] for usage in usages)
        added["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return added
