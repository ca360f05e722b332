"""What is counted, and that labels stay few."""

from server.serving import BODIES, HandEngine, Submitted, finished, says, serving
from server.test_props import FACTS
from whitedwarf.engine.request import Finished, FinishReason, Prefilled, Token
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.web.auth import ApiKeys

PLACE = "/v1/chat/completions"
BROKEN_CALL = '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="sh">\n'
TOOL = {"type": "function", "function": {"name": "sh", "parameters": {"type": "object"}}}


def test_times_and_rates_come_from_the_engine(tokenizer: Tokenizer) -> None:
    def play(submitted: Submitted) -> None:
        end = Finished(
            FinishReason.STOP, prompt_tokens=120, generated_tokens=3, reused_tokens=20, prefill_s=2.0, decode_s=0.5
        )
        submitted.put(Prefilled(20, 120), Prefilled(120, 120), *[Token(5)] * 3, end)

    with serving(HandEngine(play=play), tokenizer) as server:
        assert server.client.post(PLACE, json=BODIES[PLACE]).status_code == 200
        assert server.metric("whitedwarf_prefill_tokens_per_second_sum") == 50
        assert server.metric("whitedwarf_decode_tokens_per_second_sum") == 6
        assert server.metric("whitedwarf_token_seconds_sum") == 0.25
        assert server.metric('whitedwarf_first_token_seconds_count{dialect="chat"}') == 1
        assert server.metric("whitedwarf_requests_running") == server.metric("whitedwarf_requests_waiting") == 0


def test_repairs_unknown_fields_and_refusals_are_counted(tokenizer: Tokenizer) -> None:
    def play(submitted: Submitted) -> None:
        submitted.put(Prefilled(1, 1), *map(Token, tokenizer.encode_rendered(BROKEN_CALL)), finished())

    with serving(HandEngine(play=play), tokenizer) as server:
        server.client.post(PLACE, json={**BODIES[PLACE], "tools": [TOOL], "oddity": 1, "other": 2})
        server.client.post(PLACE, json={})
        server.client.post("/v1/messages", content=b"x")
        server.client.get("/nowhere")
        server.client.get("/v1/models/nobody")
        server.client.get("/v1/responses")
        server.client.get("/metrics", headers={"host": "evil.example"})
        text = server.client.get("/metrics").text
        repairs = [line for line in text.splitlines() if line.startswith("whitedwarf_repairs_total{")]
        assert sum(float(line.split()[-1]) for line in repairs) >= 1
        assert server.metric('whitedwarf_unknown_fields_total{dialect="chat"}') == 2
        for dialect, status in (("chat", 400), ("messages", 415), ("responses", 405), ("other", 403)):
            assert server.metric(f'whitedwarf_requests_total{{dialect="{dialect}",end="refused_{status}"}}') == 1
        assert server.metric('whitedwarf_requests_total{dialect="other",end="refused_404"}') == 2


def test_a_missing_key_is_counted(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer, keys=ApiKeys(["k"])) as server:
        assert server.client.post("/v1/messages", json={}).status_code == 401
        server.client.headers["x-api-key"] = "k"
        assert server.metric('whitedwarf_requests_total{dialect="messages",end="refused_401"}') == 1


def test_what_the_engine_and_the_disk_hold_is_told(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer, facts=FACTS) as server:
        expected = {
            "whitedwarf_slots": 3,
            "whitedwarf_power_percent": 40,
            "whitedwarf_prefix_held_bytes": 600,
            "whitedwarf_prefix_evicted_total": 2,
            'whitedwarf_prefix_requests_total{kind="memory"}': 4,
            'whitedwarf_prefix_misses_total{reason="empty"}': 1,
            "whitedwarf_disk_files": 2,
            "whitedwarf_disk_read_s_total": 0.5,
            'whitedwarf_disk_stored_total{reason="cold"}': 1,
        }
        assert {line: server.metric(line) for line in expected} == expected


def test_no_word_of_a_client_becomes_a_label(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(play=says(tokenizer, ["Hi"])), tokenizer) as server:
        server.client.post(PLACE, json={**BODIES[PLACE], "model": "oddity", "oddity": 1, "user": "oddity"})
        server.client.get("/oddity?oddity")
        server.client.request("ODDITY", "/oddity")
        server.client.get("/v1/models/oddity")
        assert "oddity" not in server.client.get("/metrics").text
