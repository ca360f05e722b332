"""The official request vectors, and our conversions in the form that they have (tests/golden/recipe/README.md)."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from whitedwarf.cli.recipe_dump import dumped_conversation, dumped_inference, dumped_parsing
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.failures import InvalidJson, MalformedRequest, RequestError, openai_error
from whitedwarf.protocol.policy import OFFICIAL, HostedTools, Missing, Policy

GOLDEN = Path(__file__).parents[1] / "golden" / "recipe"
Vector = dict[str, Any]
Convert = Callable[[Any, Policy], Converted[Any]]


def load(name: str) -> list[Vector]:
    return [json.loads(line) for line in gzip.decompress((GOLDEN / f"{name}.jsonl.gz").read_bytes()).splitlines()]


def policy_of(options: dict[str, Any]) -> Policy:
    """The official policy, with a vector's options."""
    policy = OFFICIAL
    if "default_thinking_mode" in options:
        policy = replace(policy, thinks_by_default=options["default_thinking_mode"])
    if options.get("reasoning_content_behavior") == "Reject":
        policy = replace(policy, missing_reasoning=Missing.REFUSED)
    hosted = {"Drop": HostedTools.DROPPED, "Reject": HostedTools.REFUSED}
    if "responses_web_search" in options:
        policy = replace(policy, responses_web_search=hosted[options["responses_web_search"]])
    if "messages_web_search" in options:
        policy = replace(policy, messages_web_search=hosted[options["messages_web_search"]])
    if "model_aliases" in options:  # added to the official names
        aliases = {name: ModelVersion(version) for name, version in options["model_aliases"].items()}
        policy = replace(policy, models={**policy.models, **aliases})
    return replace(
        policy,
        thinking_max_tokens=options.get("thinking_max_tokens_upper_bound", policy.thinking_max_tokens),
        non_thinking_max_tokens=options.get("non_thinking_max_tokens_upper_bound", policy.non_thinking_max_tokens),
    )


def converted(vector: Vector, convert: Convert) -> dict[str, Any]:
    """What our conversion gives, under the names of a vector's `expect`; without prompt and ids, which have own tests.

    Vectors that come as text (`request_raw`) are for the JSON reader: read them before calling this.
    """
    try:
        result = convert(vector["request"], policy_of(vector.get("options", {})))
    except InvalidJson as error:
        return {"ok": False, "stage": "parse", "error": "ValueError", "message": str(error)}
    except MalformedRequest as error:
        return {"ok": False, "stage": "parse", "error": "ValueError", "message": f"invalid request body: {error}"}
    except RequestError as error:
        body = json.dumps(openai_error(error), ensure_ascii=False, separators=(",", ":"))
        return {"ok": False, "stage": "convert", "error": "ConversionError", "status": error.status, "body": body}
    constraint = result.constraint
    return {
        "ok": True,
        "model_version": result.version.value,
        "stream": result.is_streamed,
        "conversation": dumped_conversation(result.conversation),
        "inference": dumped_inference(result.inference),
        "constraint": None if constraint is None else [constraint.kind.value, constraint.schema],
        "parsing": dumped_parsing(result.parsing),
    }


def expected(vector: Vector) -> dict[str, Any]:
    """The part of a vector's `expect` that `converted` gives."""
    keys = ("ok", "stage", "error", "message", "status", "body", "model_version", "stream", "conversation")
    keys += ("inference", "constraint", "parsing")
    return {key: vector["expect"][key] for key in keys if key in vector["expect"]}
