"""`whitedwarf recipe render`: vectors files of requests, conversations or image sizes, as we render them."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.recipe_conversation import read_conversation, read_spellings
from whitedwarf.cli.recipe_dialects import dialect_of
from whitedwarf.cli.recipe_lines import Line, LineError, Result, answer_lines, member
from whitedwarf.cli.recipe_policy import PolicyName, named_policy
from whitedwarf.cli.recipe_request import converted_or_refusal, shown_hash, shown_prompt, shown_request
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.image_size import token_count
from whitedwarf.prompt.special import PUBLISHED
from whitedwarf.prompt.tokenizer_json import PublishedTokenizers
from whitedwarf.protocol.policy import Policy

_LONGEST_SIDE = 1 << 31


def command(*, tokenizer: Annotated[Path, Parameter(name="--tokenizer")], policy: PolicyName = "official") -> None:
    """Convert, render and tokenise the requests and conversations of a vectors file.

    Reads JSON lines from standard input: chat, responses, messages, conversation and image_tokens files of
    shared/vectors/recipe. Writes a line for each: its id, and what we make of it under the names that the files have.

    Parameters
    ----------
    tokenizer
        DeepSeek V4's tokenizer.json.
    policy
        How requests are read: the official library's way, or our server's.
    """
    renderer = _Renderer(PublishedTokenizers(tokenizer), named_policy(policy))
    answer_lines(renderer.rendered)


class _Renderer:
    """Renders lines of every kind."""

    def __init__(self, tokenizers: PublishedTokenizers, policy: Policy) -> None:
        self._tokenizers = tokenizers
        self._policy = policy

    def rendered(self, line: Line) -> Result:
        """What becomes of one line."""
        if "conversation" in line:
            return self._conversation(line)
        if "rows" in line:
            return {"rows": [_with_tokens(row) for row in member(line, "rows", list)]}
        return {"expect": self._request(line)}

    def _request(self, line: Line) -> Result:
        converted = converted_or_refusal(line, dialect_of(line), self._policy)
        if isinstance(converted, dict):
            return converted
        return shown_request(converted, self._policy, self._tokenizers)

    def _conversation(self, line: Line) -> Result:
        spellings = read_spellings(line["special_tokens"]) if line.get("special_tokens") else PUBLISHED
        conversation = read_conversation(line["conversation"], spellings)
        result: Result = {}
        for version in ModelVersion:
            prompt = encode(conversation, version, spellings)
            result[version.value] = shown_prompt(prompt, spellings)
            if spellings is PUBLISHED:
                result[version.value] |= shown_hash(self._tokenizers.of(version).encode_segments(prompt.segments))
        return result


def _with_tokens(row: object) -> list[int]:
    match row:
        case [int(width), int(height), *_] if _is_side(width) and _is_side(height):
            return [width, height, token_count(width, height)]
    raise LineError(f"a row is {row!r:.80}; expected [width, height], both from 1 to {_LONGEST_SIDE}")


def _is_side(length: int) -> bool:
    return not isinstance(length, bool) and 0 < length <= _LONGEST_SIDE
