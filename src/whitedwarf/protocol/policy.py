"""What a server makes of requests: the official library's strictness, or our own wider reading of them.

`official` follows deepseek-recipe to the letter; `local` refuses only what makes no sense. Where a converter takes a
wider view it asks `policy.is_official`; everything that a server may want to set is a field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from whitedwarf.prompt.encode import ModelVersion

OFFICIAL_MODELS: Mapping[str, ModelVersion] = {
    "DeepSeek-V4-Pro": ModelVersion.V4,
    "DeepSeek-V4.1-Flash": ModelVersion.V41,
}
OFFICIAL_MAX_TOKENS = 393_216
LONGEST_CALL_TOKENS = 65_536
"""A whole large file fits in a call of so many."""
ASSUMED_MODEL = "deepseek-v4"
"""The name that the local policy takes a request for that has none."""


class Missing(Enum):
    """What becomes of an earlier answer whose reasoning the client did not send back."""

    FILLED = auto()  # taken as empty
    REFUSED = auto()


class HostedTools(Enum):
    """What becomes of a web search that the client expects of the server."""

    DROPPED = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Policy:
    """How requests are read. `other_models`, where set, is the encoding for every model name not in `models`."""

    is_official: bool
    models: Mapping[str, ModelVersion] = field(default_factory=lambda: OFFICIAL_MODELS)
    other_models: ModelVersion | None = None
    thinks_by_default: bool = True
    missing_reasoning: Missing = Missing.FILLED
    responses_web_search: HostedTools = HostedTools.DROPPED
    messages_web_search: HostedTools = HostedTools.REFUSED
    thinking_max_tokens: int = OFFICIAL_MAX_TOKENS
    non_thinking_max_tokens: int = OFFICIAL_MAX_TOKENS
    default_max_tokens: int | None = None  # of an answer that asks for no length; None: the official library's choice
    assumed_model: str = ASSUMED_MODEL
    max_call_tokens: int | None = None  # a longer call is taken for one that never ends (demand.md P35)

    def max_tokens_bound(self, *, is_thinking: bool) -> int:
        """The most tokens that an answer may ask for."""
        return self.thinking_max_tokens if is_thinking else self.non_thinking_max_tokens


OFFICIAL = Policy(is_official=True)


def local(
    version: ModelVersion,
    default_max_tokens: int | None = None,
    max_call_tokens: int = LONGEST_CALL_TOKENS,
    assumed_model: str = ASSUMED_MODEL,
) -> Policy:
    """Our server's own reading, for the one model it runs: any model name means that one."""
    return Policy(
        is_official=False,
        models={},
        other_models=version,
        messages_web_search=HostedTools.DROPPED,
        default_max_tokens=default_max_tokens,
        max_call_tokens=max_call_tokens,
        assumed_model=assumed_model,
    )
