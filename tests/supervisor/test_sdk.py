"""OpenAI's own library through a whole supervisor: answers, streams, models, and errors as it classifies them."""

import json
from pathlib import Path

import openai
import pytest

from supervisor.supervisors import Supervisor, config_of, supervisor

pytestmark = pytest.mark.anyio


def sdk(it: Supervisor) -> openai.AsyncOpenAI:
    port = it.address("a").port
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="local", max_retries=0)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


async def test_answers_streams_and_errors_reach_the_library(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", "b")
    config["models"][0] |= {"ctxSize": 4096, "softContextLimit": 1000}
    async with supervisor(tmp_path, config) as it, sdk(it) as client:
        (model,) = (await client.models.list()).data
        assert model.id == "a"
        said = await client.chat.completions.create(model="a", messages=[{"role": "user", "content": "hi"}])
        assert said.choices[0].message.content == "OK"
        stream = await client.chat.completions.create(
            model="a", messages=[{"role": "user", "content": "hi"}], stream=True, extra_body={"fake": {"events": 3}}
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert text == "0 1 2 "
        with pytest.raises(openai.BadRequestError, match="exceeds the available context size") as caught:
            await client.chat.completions.create(model="a", messages=[{"role": "user", "content": "x" * 2000}])
        assert caught.value.type == "exceed_context_size_error"
        with pytest.raises(openai.NotFoundError, match="'b' is at port"):
            await client.chat.completions.create(model="b", messages=[])


async def test_an_overflow_after_early_headers_is_an_error_for_the_library(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", words=("--load-s", "1"), earlyHeadersSec=0.2)
    config["models"][0] |= {"ctxSize": 4096, "softContextLimit": 1000}
    async with supervisor(tmp_path, config) as it, sdk(it) as client:
        stream = await client.chat.completions.create(
            model="a", messages=[{"role": "user", "content": "x" * 2000}], stream=True
        )
        with pytest.raises(openai.APIError, match="exceeds the available context size"):
            async for _ in stream:
                pass


async def test_a_cut_stream_is_an_error_for_the_library(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a")) as it, sdk(it) as client:
        stream = await client.chat.completions.create(
            model="a",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            extra_body={"fake": {"events": 2, "then": "cut"}},
        )
        with pytest.raises(openai.APIConnectionError):
            async for _ in stream:
                pass
        metrics = (await it.get("a", "/__supervisor/metrics")).body
        assert b'requests_total{model="a",outcome="cut"} 1' in metrics
        assert json.loads((await it.get("a", "/__supervisor/status")).body)["models"][0]["in_flight"] == 0
