from typing import Any

from openai.types import Completion

from protocol.answer_runs import IDENTITY
from protocol.sdk_clients import openai_client
from whitedwarf.conversation.events import BackendReason, Event, Finished, FinishReason, TextDelta
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.plain_output import PlainOutput
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.completion_chunks import CompletionAnswer, CompletionStream
from whitedwarf.protocol.converted import CompletionReply, PromptUsage
from whitedwarf.protocol.token_log import TokenLog

END = Finished(FinishReason.STOP, None, 5, 0)
PLAIN = CompletionReply()


def body(chunks: list[Any]) -> Any:
    answer = CompletionAnswer(IDENTITY)
    answer.take(chunks)
    return answer.body()


def told(*events: Event, reply: CompletionReply = PLAIN) -> list[Any]:
    stream = CompletionStream(IDENTITY, reply)
    return stream.begin(PromptUsage(10, 4)) + stream.take(events)


def test_the_text_is_what_the_model_wrote_with_thoughts_and_calls(nano: Tokenizer) -> None:
    written = "hm\n</think>\n\nyes <｜DSML｜invoke>"
    output = PlainOutput((), nano)
    events = [event for token in nano.encode_rendered(written) for event in output.feed_ids([token])]
    chunks = told(*events, *output.finish(BackendReason.LENGTH))
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == written
    choice = body(chunks)["choices"][0]
    assert choice == {"text": written, "index": 0, "logprobs": None, "finish_reason": "length"}


def test_a_stop_string_ends_the_text_and_is_told_as_a_stop() -> None:
    output = PlainOutput(("END",))
    chunks = told(*output.feed_text("abcE"), *output.feed_text("NDxyz"))
    assert body(chunks)["choices"][0]["text"] == "abc"
    assert body(chunks)["choices"][0]["finish_reason"] == "stop"


def test_an_echoed_prompt_comes_first() -> None:
    chunks = told(TextDelta("b"), END, reply=CompletionReply(echoed_prompt="a"))
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["a", "b", ""]


def test_usage_is_on_the_last_chunk_or_in_one_of_its_own() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4},
        "prompt_cache_hit_tokens": 4,
        "prompt_cache_miss_tokens": 6,
    }
    assert told(END)[-1]["usage"] == usage
    chunks = told(END, reply=CompletionReply(usage_chunk=True))
    assert [(chunk["choices"] == [], chunk["usage"]) for chunk in chunks] == [(False, None), (True, usage)]
    assert body(chunks)["usage"] == usage


def test_log_probabilities_have_the_dialects_own_form(official_tokenizers: dict[ModelVersion, Tokenizer]) -> None:
    tokenizer = official_tokenizers[ModelVersion.V4]
    tokens = TokenLog(tokenizer)
    ids = [*tokenizer.encode("é"), *tokenizer.encode("🦔"), *tokenizer.encode("z")]
    for token in ids:
        tokens.add(token, -0.5, [(token, -0.5)])
    output = PlainOutput((), tokenizer)
    stream = CompletionStream(IDENTITY, CompletionReply(echoed_prompt="abc"), tokens)
    chunks = stream.begin() + stream.take([*output.feed_ids(ids), *output.finish()])
    logprobs = body(chunks)["choices"][0]["logprobs"]
    texts = logprobs["tokens"]
    assert texts[0] == "é"
    assert texts[-1] == "z"
    assert logprobs["token_logprobs"] == [-0.5] * len(ids)
    assert logprobs["top_logprobs"] == [{text: -0.5} for text in texts]
    assert logprobs["text_offset"] == [3, *[4] * (len(ids) - 2), 5]


def test_a_failed_answer_ends_with_one_error_and_nothing_more() -> None:
    stream = CompletionStream(IDENTITY, CompletionReply())
    (error,) = stream.fail("the engine stopped")
    assert error["error"] == {
        "message": "the engine stopped",
        "type": "server_error",
        "param": None,
        "code": "server_error",
    }
    assert stream.fail("again") == []
    assert stream.keepalive() == []
    assert stream.take([TextDelta("late"), END]) == []
    assert body([error])["choices"][0]["text"] == ""


def test_the_sdk_takes_the_stream_and_the_whole_answer() -> None:
    stream = CompletionStream(IDENTITY, CompletionReply(usage_chunk=True))
    chunks = stream.begin() + stream.keepalive() + stream.take([TextDelta("a"), TextDelta("b"), END])
    with openai_client(chunks) as client:
        answers = list(client.completions.create(model="m", prompt="p", stream=True))
    assert "".join(choice.text for answer in answers for choice in answer.choices) == "ab"
    assert answers[-1].usage is not None
    assert Completion.model_validate(body(chunks)).choices[0].text == "ab"
    for chunk in chunks[-2:]:  # the SDK's type knows no open finish reason, though OpenAI's chunks have it
        Completion.model_validate(chunk)
