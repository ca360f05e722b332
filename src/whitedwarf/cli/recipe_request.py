"""A request of a vectors file, converted, rendered and tokenised: what the file calls `expect`.

Format: tests/golden/recipe/README.md. A request that is refused is a result like another.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from whitedwarf.cli.recipe_dialects import Dialect
from whitedwarf.cli.recipe_dump import dumped_conversation, dumped_image, dumped_inference, dumped_parsing
from whitedwarf.cli.recipe_lines import Line, Result, member
from whitedwarf.cli.recipe_policy import with_options
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.json_value import Json
from whitedwarf.errors import RequestError
from whitedwarf.prompt.encode import encode
from whitedwarf.prompt.rendered import Prompt
from whitedwarf.prompt.special import PUBLISHED, Spellings
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.prompt.tokenizer_json import PublishedTokenizers
from whitedwarf.protocol.converted import Converted, ResponsesReply
from whitedwarf.protocol.failures import InvalidJson, MalformedRequest, openai_error
from whitedwarf.protocol.fields import round_to_single
from whitedwarf.protocol.json_body import read_json
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.resolution import resolve_max_tokens

_WHOLE_CONTEXT, _SPARE_TOKENS = 1_000_000, 7
_ECHOED = ("instructions", "max_output_tokens", "temperature", "top_p", "top_logprobs", "user")


def converted_or_refusal(line: Line, dialect: Dialect, policy: Policy) -> Converted[Any] | Result:
    """The line's request converted, or how it is refused."""
    asked = with_options(policy, line.get("options") or {})
    try:
        return dialect.convert(_body(line), asked)
    except InvalidJson as error:
        return _malformed(str(error))
    except MalformedRequest as error:
        return _malformed(f"invalid request body: {error}")
    except RequestError as error:
        return {"ok": False, "stage": "convert", "error": "ConversionError", **_refusal(error)}


def shown_request(converted: Converted[Any], policy: Policy, tokenizers: PublishedTokenizers) -> Result:
    """Everything that becomes of a request that is not refused."""
    constraint = converted.constraint
    return {
        "ok": True,
        "model_version": converted.version.value,
        "stream": converted.is_streamed,
        "conversation": dumped_conversation(converted.conversation),
        "inference": dumped_inference(converted.inference),
        "constraint": None if constraint is None else [constraint.kind.value, constraint.schema],
        "parsing": dumped_parsing(converted.parsing),
        **_shown_reply(converted.reply),
        **_shown_ids(converted, tokenizers.of(converted.version)),
        **({} if policy.is_official else _shown_notes(converted)),
    }


def shown_prompt(prompt: Prompt, spellings: Spellings = PUBLISHED) -> Result:
    """A prompt as text."""
    rendered = prompt.rendered(spellings)
    return {"prompt": rendered.text, "special_ranges": [list(span) for span in rendered.special_ranges]}


def shown_hash(ids: Sequence[int]) -> Result:
    """Token ids in short."""
    digest = hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()
    return {"n_tokens": len(ids), "token_ids_sha256": digest}


def _body(line: Line) -> Json:
    if "request_raw" in line:
        return read_json(member(line, "request_raw", str))
    if "request" not in line:
        member(line, "request", dict)
    return read_json(json.dumps(line["request"]))  # integers too large, NaN: as if it had come as text


def _malformed(message: str) -> Result:
    return {"ok": False, "stage": "parse", "error": "ValueError", "message": message}


def _refusal(error: RequestError) -> Result:
    body = json.dumps(openai_error(error), ensure_ascii=False, separators=(",", ":"))
    return {"status": error.status, "body": body}


def _shown_reply(reply: object) -> Result:
    if not isinstance(reply, ResponsesReply):
        return {}
    # A response repeats numbers in few digits; the vectors have what 32 bits make of them.
    echo = [_single(reply.echo[name]) for name in _ECHOED]
    names = {name: list(origin) for name, origin in sorted(reply.namespaces.items())}
    return {**({"namespace_tool_map": names} if names else {}), "echo": echo}


def _single(value: Json) -> Json:
    return round_to_single(value) if isinstance(value, float) else value


def _shown_ids(converted: Converted[Any], tokenizer: Tokenizer) -> Result:
    prompt = encode(converted.conversation, converted.version)
    ids = tokenizer.encode_segments(prompt.segments)
    images = {"image_sources": list(map(dumped_image, prompt.images))} if prompt.images else {}
    contexts = (_WHOLE_CONTEXT, len(ids) + _SPARE_TOKENS)
    lengths = [_answer_length(converted, len(ids), context) for context in contexts]
    return {
        **shown_prompt(prompt),
        **images,
        **shown_hash(ids),
        "token_ids": ids,
        "resolve_max_tokens": lengths,
    }


def _answer_length(converted: Converted[Any], prompt_tokens: int, context_length: int) -> int | Result:
    conversation: Conversation = converted.conversation
    try:
        return resolve_max_tokens(
            converted.inference.max_tokens,
            prompt_tokens,
            context_length,
            is_thinking=conversation.is_thinking,
            effort=conversation.reasoning_effort,
        )
    except RequestError as error:
        return _refusal(error)


def _shown_notes(converted: Converted[Any]) -> Result:
    """What the local policy has to say besides."""
    return {"warnings": list(converted.warnings), "unknown_fields": list(converted.unknown_fields)}
