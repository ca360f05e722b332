"""The policy under which a line of a vectors file is read: the command's, changed by the line's `options`.

Options: tests/golden/recipe/README.md; they are those of the official library.
"""

from dataclasses import replace
from typing import Any, Literal, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.fields import Field, Reader, boolean, optional, record, unsigned, variant, wrong_type
from whitedwarf.protocol.policy import OFFICIAL, OFFICIAL_MODELS, HostedTools, Missing, Policy, local

PolicyName: TypeAlias = Literal["official", "local"]
_MISSING = {"FillEmpty": Missing.FILLED, "Reject": Missing.REFUSED}
_HOSTED = {"Drop": HostedTools.DROPPED, "Reject": HostedTools.REFUSED}


def named_policy(name: PolicyName) -> Policy:
    """The policy of that name. The local one takes a model name that it does not know for the newest model's."""
    return OFFICIAL if name == "official" else replace(local(ModelVersion.V41), models=OFFICIAL_MODELS)


def with_options(policy: Policy, options: Json) -> Policy:
    """The policy as the options change it; MalformedRequest if they are none. Aliases are added to its models."""
    changes = {_FIELDS[name]: value for name, value in _read_options(options).items() if value is not None}
    if "models" in changes:
        changes["models"] = {**policy.models, **changes["models"]}
    return replace(policy, **changes)


def _meaning(meanings: dict[str, Any]) -> Field:
    read_name: Reader = variant(*meanings)
    return optional(lambda value: meanings[read_name(value)])


def _aliases(value: Json) -> dict[str, ModelVersion]:
    if not isinstance(value, dict):
        raise wrong_type(value, "a map")
    read_version = variant(*ModelVersion)
    return {name: ModelVersion(read_version(version)) for name, version in value.items()}


_FIELDS = {
    "default_thinking_mode": "thinks_by_default",
    "reasoning_content_behavior": "missing_reasoning",
    "responses_web_search": "responses_web_search",
    "messages_web_search": "messages_web_search",
    "thinking_max_tokens_upper_bound": "thinking_max_tokens",
    "non_thinking_max_tokens_upper_bound": "non_thinking_max_tokens",
    "model_aliases": "models",
}
_read_options = record(
    "options",
    {
        "default_thinking_mode": optional(boolean),
        "reasoning_content_behavior": _meaning(_MISSING),
        "responses_web_search": _meaning(_HOSTED),
        "messages_web_search": _meaning(_HOSTED),
        "thinking_max_tokens_upper_bound": optional(unsigned(32)),
        "non_thinking_max_tokens_upper_bound": optional(unsigned(32)),
        "model_aliases": optional(_aliases),
    },
    dict,
)
