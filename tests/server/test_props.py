"""GET /props, and what every address that is only read answers to HEAD and OPTIONS."""

import time

import pytest

from server.serving import BODIES, HandEngine, finished, serving
from whitedwarf import __version__
from whitedwarf.engine.prefix import PrefixStats
from whitedwarf.engine.request import Prefilled
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.facts import Facts

READ = ("/", "/health", "/metrics", "/props", "/openapi.json", "/v1/models", "/v1/models/tiny")
STATS = PrefixStats(1000, 600, 3, 1, 2, 70, {"memory": 4, "none": 1}, {"empty": 1})
FACTS = Facts(
    backend="cpu",
    recipe="v4.1",
    file_name="a.gguf",
    total_slots=3,
    max_waiting=9,
    power_percent=40,
    prefix_stats=lambda: STATS,
    disk_stats=lambda: {"files": 2, "read_s": 0.5, "stored": {"cold": 1}},
    placement="whole model on cuda:0",
    streaming="9 of 48 experts",
    expert_stats=lambda: {"hits": 30, "misses": 10},
)


def test_the_names_of_llama_cpp_are_there_and_our_own(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer, facts=FACTS) as server:
        told = server.client.get("/props").json()
    assert told["default_generation_settings"]["n_ctx"] == told["n_ctx"] == 1000
    assert told["default_generation_settings"]["params"]["min_p"] == 0.05
    assert (told["total_slots"], told["model_alias"], told["model_path"]) == (3, "tiny", "a.gguf")
    assert told["modalities"] == {"vision": False, "audio": False}
    assert (told["chat_template"], "recipe v4.1" in told["chat_template_note"]) == ("", True)
    assert __version__ in told["build_info"]
    assert (told["power_percent"], told["backend"], told["uptime_s"] > 0) == (40, "cpu", True)
    assert told["prefix_memory"]["held_bytes"] == 600
    assert told["prefix_memory"]["requests"] == {"memory": 4, "none": 1}
    assert (told["placement"], told["experts"]) == ("whole model on cuda:0", {"hits": 30, "misses": 10})
    assert told["streaming"] == "9 of 48 experts"
    assert told["disk"] == {"files": 2, "read_s": 0.5, "stored": {"cold": 1}}


def test_without_memory_and_disk_it_says_so(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        told = server.client.get("/props").json()
    assert (told["prefix_memory"], told["disk"], told["placement"], told["experts"]) == (None, None, None, None)


def test_waiting_and_running_requests_are_told_without_the_engine(tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    body = b'{"max_tokens":9,"messages":[{"role":"user","content":"x"}]}'
    head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    asked = head + b"content-length: %d\r\n\r\n" % len(body) + body
    with serving(engine, tokenizer) as server, server.connect(asked) as connection:
        request = engine.next_request()
        seen = []
        for event in (None, Prefilled(0, 5), finished()):
            if event is not None:
                request.put(event)
            time.sleep(0.1)
            told = server.client.get("/props").json()
            seen.append((told["requests"]["waiting"], told["requests"]["running"]))
            assert server.metric("whitedwarf_requests_waiting") == seen[-1][0]
            assert server.metric("whitedwarf_requests_running") == seen[-1][1]
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert seen == [(1, 0), (0, 1), (0, 0)]


@pytest.mark.parametrize("path", READ)
def test_what_is_read_has_a_head_and_no_other_methods(path: str, tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        whole, head = server.client.get(path), server.client.head(path)
        assert (whole.status_code, head.status_code, head.content) == (200, 200, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]
        if path not in ("/props", "/metrics"):  # these tell another moment
            assert head.headers["content-length"] == whole.headers["content-length"]
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            wrong = server.client.request(method, path)
            assert (wrong.status_code, set(wrong.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
            assert wrong.json()["error"]["code"] == "method_not_allowed"
            assert f"expected {wrong.headers['allow']}" in wrong.json()["error"]["message"]


@pytest.mark.parametrize("path", [*READ, *BODIES, "/nowhere"])
def test_options_are_told_everywhere(path: str, tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        answer = server.client.options(path)
    assert (answer.status_code, answer.content, "POST" in answer.headers["allow"]) == (204, b"", True)
