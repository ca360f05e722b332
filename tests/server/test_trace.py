"""`--trace`: what is in the file, who may read it, and that it never harms a request."""

import errno
import io
import json
import logging
import os
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from server.serving import BODIES, HandEngine, Submitted, finished, says, serving
from whitedwarf.engine.request import Finished, FinishReason, MissReason, Prefilled, Reuse, Token
from whitedwarf.errors import EngineBusyError, UsageError
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.request_trace import Trace
from whitedwarf.server.trace import FIRST_LINE, TraceFile
from whitedwarf.web.auth import ApiKeys

CALL = '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="sh">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
TOOL = {"type": "function", "function": {"name": "sh", "parameters": {"type": "object"}}}


class FullDisk(io.RawIOBase):
    """Takes so many bytes, then none."""

    def __init__(self, room: int) -> None:
        self.room = room

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = min(self.room, len(piece))
        self.room -= written
        return written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace"


@pytest.fixture
def file(path: Path) -> Iterator[TraceFile]:
    opened = TraceFile.open(path)
    yield opened
    opened.close()


def ask(tokenizer: Tokenizer, file: TraceFile, engine: HandEngine, path: str, **more: Any) -> int:
    with serving(engine, tokenizer, trace=Trace(file, tokenizer)) as server:
        return server.client.post(path, json={**BODIES[path], **more}).status_code


@pytest.mark.parametrize("place", BODIES)
@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
def test_a_block_tells_a_request_from_its_json_to_its_end(
    place: str, is_streamed: bool, tokenizer: Tokenizer, file: TraceFile, path: Path
) -> None:
    engine = HandEngine(play=says(tokenizer, ["Hello ", "🦔"], reused=3))
    assert (
        ask(tokenizer, file, engine, place, stream=is_streamed, seed=7, oddity=1, thinking={"type": "disabled"}) == 200
    )
    text = path.read_text()
    assert re.fullmatch(r"whitedwarf trace\n\n===== request 1 .*\n===== end request 1 =====\n\n", text, re.DOTALL)
    expected = [
        f"stream: {'yes' if is_streamed else 'no'}\n",
        "unknown_fields: oddity\n" if place != "/v1/messages" else "unknown_fields: seed, oddity\n",
        "--- raw request ---\n{",
        '"oddity":1',
        "--- rendered prompt ---\n<｜begin▁of▁sentence｜>",
        "Go on.<｜Assistant｜>",
        "--- trace: prefill begins: cached_tokens=3 prompt_tokens=",
        "Hello 🦔",
        "reuse: none\n",
        "end: done\nfinish: stop\n",
        "--- content ---\nHello 🦔\n",
    ]
    places = [text.find(piece) for piece in expected]
    assert -1 not in places, expected[places.index(-1)]
    assert places == sorted(places)


def test_other_choices_than_the_first_are_told_at_the_end(tokenizer: Tokenizer, file: TraceFile, path: Path) -> None:
    told = iter(["Hello", "Good evening", "Hi"])
    engine = HandEngine(play=lambda submitted: says(tokenizer, [next(told)])(submitted))
    assert ask(tokenizer, file, engine, "/v1/chat/completions", n=3, thinking={"type": "disabled"}) == 200
    text = path.read_text()
    assert "--- generated text ---\n" in text
    tail = text[text.index("--- content ---") :]
    assert re.fullmatch(
        r"--- content ---\nHello\n.*--- choice 1: finish: stop, \d+ tokens ---\nGood evening\n"
        r"\n--- choice 2: finish: stop, \d+ tokens ---\nHi\n===== end request 1 =====\n\n",
        tail,
        re.DOTALL,
    )


def test_control_tokens_repairs_and_calls_are_visible(tokenizer: Tokenizer, file: TraceFile, path: Path) -> None:
    stop = tokenizer.special_id(SpecialToken.EOS)

    def play(submitted: Submitted) -> None:
        ids = [
            *tokenizer.encode("Hm."),
            tokenizer.special_id(SpecialToken.THINK_CLOSE),
            *tokenizer.encode_rendered(CALL),
        ]
        end = Finished(FinishReason.STOP, prompt_tokens=1, generated_tokens=len(ids), stop_id=stop)
        submitted.put(Prefilled(0, 1), Prefilled(1, 1), *map(Token, ids), end)

    place = "/v1/chat/completions"
    assert ask(tokenizer, file, HandEngine(play=play), place, thinking={"type": "enabled"}, tools=[TOOL]) == 200
    text = path.read_text()
    assert "Hm.</think>" in text
    assert "</｜DSML｜tool_calls>" in text
    assert "<｜end▁of▁sentence｜>" in text.partition("--- generated text ---")[2]
    assert "--- trace: call 0 begins: sh ---" in text
    assert "--- tool calls ---\ncall 0 sh: {}\n" in text
    assert "finish: tool_calls\n" in text
    assert "--- reasoning ---\nHm.\n" in text


def test_where_a_prompt_parts_from_an_earlier_one_is_shown(tokenizer: Tokenizer, file: TraceFile, path: Path) -> None:
    def play(submitted: Submitted) -> None:
        common = len(submitted.ids) - 3
        end = Finished(
            FinishReason.STOP,
            prompt_tokens=len(submitted.ids),
            generated_tokens=0,
            reuse=Reuse.NONE,
            miss_reason=MissReason.NO_CHECKPOINT,
            common_tokens=common,
            seen_next=(int(submitted.ids[common]) + 1, 6, 7, 8),
        )
        submitted.put(Prefilled(0, len(submitted.ids)), Prefilled(len(submitted.ids), len(submitted.ids)), end)

    assert ask(tokenizer, file, HandEngine(play=play), "/v1/messages") == 200
    text = path.read_text()
    assert "miss_reason: no_checkpoint\n" in text
    lines = [line.split() for line in text.partition("first_difference: ")[2].splitlines() if line.startswith("  [")]
    assert [line[1] for line in lines].count("==") >= 8
    assert lines[8][1] == "!="
    assert lines[-1][1] == "live-only"


def test_requests_side_by_side_can_be_told_apart(tokenizer: Tokenizer, file: TraceFile, path: Path) -> None:
    engine = HandEngine()
    with serving(engine, tokenizer, trace=Trace(file, tokenizer)) as server, ThreadPoolExecutor(2) as pool:
        place = "/v1/chat/completions"
        answers = [pool.submit(server.client.post, place, json=BODIES[place]) for _ in range(2)]
        asked = [engine.next_request(), engine.next_request()]
        for word in ("uno ", "due ", "tre "):
            for which, request in enumerate(asked):
                shown = f"{word}{'ab'[which]};"
                request.put(*([Prefilled(1, 1)] if word == "uno " else []), *map(Token, tokenizer.encode(shown)))
                while shown not in path.read_text():
                    pass
        for request in asked:
            request.put(finished())
        assert [answer.result().status_code for answer in answers] == [200, 200]
    said: dict[int, str] = {1: "", 2: ""}
    number = 0
    for line in path.read_text().splitlines():
        if found := re.match(r"(?:--- trace: |===== )request (\d)", line):
            number = int(found[1])
        elif number:
            said[number] += line + "\n"
    letters = {text[text.index("uno ") + 4] for text in said.values()}
    assert letters == {"a", "b"}
    for text in said.values():
        letter = text[text.index("uno ") + 4]
        assert f"--- content ---\nuno {letter};due {letter};tre {letter};\n" in text


def test_no_key_and_no_header_gets_into_it(tokenizer: Tokenizer, file: TraceFile, path: Path) -> None:
    engine = HandEngine(play=says(tokenizer, ["Hi"]))
    with serving(engine, tokenizer, keys=ApiKeys(["sesame"]), trace=Trace(file, tokenizer)) as server:
        for headers in ({"authorization": "Bearer sesame"}, {"x-api-key": "sesame", "cookie": "crumbs"}):
            place = "/v1/messages"
            assert server.client.post(place, json=BODIES[place], headers=headers).status_code == 200
        assert server.client.post(place, json=BODIES[place], headers={"x-api-key": "wrong"}).status_code == 401
    text = path.read_text()
    assert "end request 2" in text
    assert not any(word in text.lower() for word in ("sesame", "crumbs", "wrong", "authorization", "x-api-key"))


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
def test_a_client_that_leaves_has_a_block_with_what_was_said(
    is_streamed: bool, tokenizer: Tokenizer, file: TraceFile, path: Path
) -> None:
    engine = HandEngine()
    body = json.dumps({**BODIES["/v1/messages"], "stream": is_streamed}).encode()
    head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with serving(engine, tokenizer, trace=Trace(file, tokenizer)) as server:
        connection = server.connect(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        request = engine.next_request()
        request.put(Prefilled(0, 1), Prefilled(1, 1), *map(Token, tokenizer.encode("Half a")))
        while "Half a" not in path.read_text():
            pass
        connection.close()
        request.wait_until_cancelled()
    assert "the engine was not heard to the end\n" in path.read_text()
    assert "end: cancelled\nfinish: none\n" in path.read_text()


def test_what_is_refused_has_a_block_too(tokenizer: Tokenizer, file: TraceFile, path: Path) -> None:
    assert ask(tokenizer, file, HandEngine(), "/v1/messages", messages=[]) == 400
    assert ask(tokenizer, file, HandEngine(error=EngineBusyError("64 wait")), "/v1/messages") == 429
    text = path.read_text()
    assert "refused: 400 messages: at least one message is required\n" in text
    assert "end: refused\nfailure: 429 64 wait\n" in text


@pytest.mark.parametrize("room", [0, 10, 500])
def test_a_full_disk_costs_only_the_trace_and_is_told_once(
    room: int, tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    file = TraceFile(FullDisk(room))
    with caplog.at_level(logging.INFO, "whitedwarf"):
        for _ in range(2):
            assert ask(tokenizer, file, HandEngine(play=says(tokenizer, ["Hi"])), "/v1/responses") == 200
    assert [record.message for record in caplog.records].count("trace_stopped") == 1


def test_only_its_owner_may_read_it_even_where_others_could_before(path: Path) -> None:
    for _ in range(2):
        TraceFile.open(path).close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)


def test_an_earlier_trace_is_overwritten_and_nothing_else(path: Path) -> None:
    first = TraceFile.open(path)
    first.write(1, "\nmuch\n")
    first.close()
    TraceFile.open(path).close()
    assert path.read_text() == FIRST_LINE
    path.write_bytes(b"GGUF")
    with pytest.raises(UsageError, match="something else"):
        TraceFile.open(path)
    assert path.read_bytes() == b"GGUF"


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for name, why in {"link": "symbolic link", "": "directory", "none/such": "No such", "pipe": "regular"}.items():
        with pytest.raises(UsageError, match=f"--trace .*{why}"):
            TraceFile.open(tmp_path / name)
    assert not (tmp_path / "elsewhere").exists()


def test_text_that_is_none_is_written_all_the_same(file: TraceFile, path: Path) -> None:
    file.write(1, json.loads('"\\ud800"'))
    assert path.read_text().endswith("\\ud800")


def test_a_closed_file_is_left_alone(file: TraceFile, path: Path) -> None:
    file.close()
    file.write(1, "late")
    assert "late" not in path.read_text()
