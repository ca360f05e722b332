"""Whatever JSON is posted, the answer is an answer or a refusal: never a 500, never a hang."""

import copy
import json
import random
from typing import Any

import pytest

from fakes.scripted_server import eventually
from server.serving import BODIES, HandEngine, says, serving
from whitedwarf.prompt.tokenizer import Tokenizer

RICH: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "seed": 3,
    "stop": ["x"],
    "stop_sequences": ["x"],
    "stream_options": {"include_usage": True},
    "logprobs": True,
    "top_logprobs": 2,
    "max_tokens": 5,
    "max_output_tokens": 5,
    "system": [{"type": "text", "text": "Be brief."}],
    "tools": [{"type": "function", "name": "f", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "response_format": {"type": "json_object"},
    "text": {"format": {"type": "text"}},
    "metadata": {"user_id": "u"},
}
ODD: tuple[Any, ...] = (None, True, 0, -1, 2**63, 1e300, "", "x", "\x00\u2028🦔", [], {}, [[]], [{}], {"type": "text"})


def spoilt(body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The body with a few places replaced, anywhere in it."""
    made = copy.deepcopy(body)
    for _ in range(rng.randint(1, 3)):
        place: Any = made
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
                place = place[key]
                continue
            place[key] = copy.deepcopy(rng.choice(ODD))
            break
    return made


@pytest.mark.slow
@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
def test_no_body_breaks_the_server(path: str, is_streamed: bool, tokenizer: Tokenizer) -> None:
    rng = random.Random(f"{path} {is_streamed}")
    whole = {**RICH, **BODIES[path]}
    with serving(HandEngine(play=says(tokenizer, ["Hello"])), tokenizer) as server:
        for _ in range(150):
            body = {**spoilt(whole, rng), "stream": is_streamed}
            answer = server.client.post(path, json=body)
            assert answer.status_code in (200, 400), (body, answer.text)
            if answer.status_code == 400:
                assert json.loads(answer.text)["error"]["message"]
        assert eventually(lambda: server.metric("whitedwarf_requests_active") == 0)  # counted after the last byte
