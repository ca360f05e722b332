import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fakes.official_endpoint import KEY, FakeEndpoint, running
from whitedwarf.cli import score_collect
from whitedwarf.cli.main import main
from whitedwarf.evals.score.case_files import read_manifest
from whitedwarf.evals.score.endpoint import Endpoint
from whitedwarf.evals.score.official_vectors import read_official
from whitedwarf.evals.score.retries import AskAgainError
from whitedwarf.web.endpoint.api_key import ApiKey

Collect = Callable[..., tuple[int, str, str]]
PROMPTS = {"one": "What is one?", "two": "Two — and what then?\nSay it.", "three": "3"}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    with running(FakeEndpoint(answers={"What is one?": "One is a number.", "3": "Ja, drei."})) as fake:
        yield fake


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which are not made."""
    found: list[float] = []
    monkeypatch.setattr(score_collect.time, "sleep", found.append)
    return found


@pytest.fixture
def collect(endpoint: FakeEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Collect:
    """`score collect` with three prompts, into a folder `set`."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"id": key, "prompt": text}) + "\n" for key, text in PROMPTS.items()))

    def call(*words: str, prompts: Path = prompts) -> tuple[int, str, str]:
        capsys.readouterr()
        begin = ["score", "collect", "-o", str(tmp_path / "set"), "--endpoint", endpoint.url]
        code = main([*begin, "--prompts", str(prompts), *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_set_is_collected_that_others_can_read(collect: Collect, endpoint: FakeEndpoint, tmp_path: Path) -> None:
    code, out, _ = collect()
    cases = read_manifest(tmp_path / "set")
    assert code == 0
    assert "3 of 3 continuations" in out
    assert [case.id for case in cases] == list(PROMPTS)
    assert [case.prompt.read_text() for case in cases] == list(PROMPTS.values())
    assert [case.continuation.read_text() for case in cases] == ["One is a number.", "Yes.", "Ja, drei."]
    assert json.loads(cases[0].response.read_text())["choices"][0]["message"]["content"] == "One is a number."
    assert endpoint.bodies[0] == {
        "model": "deepseek-v4-flash",
        "messages": [{"role": "user", "content": "What is one?"}],
        "max_tokens": 24,
        "temperature": 0,
        "stream": False,
        "logprobs": True,
        "top_logprobs": 5,
        "thinking": {"type": "disabled"},
    }


def test_the_candidates_become_vectors(collect: Collect, tmp_path: Path) -> None:
    collect()
    cases = read_official(tmp_path / "set" / "official.vec")
    assert [case.id for case in cases] == list(PROMPTS)
    assert b"".join(step.chosen for step in cases[0].steps) == b"One is a number."


def test_control_tokens_without_bytes_are_no_part_of_vectors(collect: Collect, tmp_path: Path) -> None:
    collect()
    blank = {"token": "", "logprob": -0.5, "bytes": []}
    first, second, third = PROMPTS
    for name, place in ((first, 99), (second, 0)):
        file = tmp_path / "set" / "responses" / f"{name}.json"
        answer = json.loads(file.read_text())
        steps = answer["choices"][0]["logprobs"]["content"]
        steps[0]["top_logprobs"].append(blank)
        steps.insert(place, blank | {"top_logprobs": []})
        file.write_text(json.dumps(answer))
    assert collect()[0] == 0
    cases = {case.id: case for case in read_official(tmp_path / "set" / "official.vec")}
    assert list(cases) == [first, third]
    assert b"".join(step.chosen for step in cases[first].steps) == b"One is a number."
    assert len(cases[first].steps[0].top) == 5


def test_an_answer_with_a_token_that_is_not_listed_becomes_no_vector(
    collect: Collect, endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    first, _, third = PROMPTS.values()
    endpoint.not_listed = {first: 1, third: 0}
    code, _, err = collect()
    assert code == 0
    cases = read_official(tmp_path / "set" / "official.vec")
    assert [case.id for case in cases] == list(PROMPTS)[1:]
    assert f"{next(iter(PROMPTS))}: 7 tokens were drawn, 6 are listed: no vectors of it" in err
    assert [len(step.top) for step in cases[0].steps] == [5] * len(cases[0].steps)


def test_what_is_there_is_not_asked_again(collect: Collect, endpoint: FakeEndpoint, tmp_path: Path) -> None:
    assert collect("--count", "1")[0] == 0
    assert collect()[1].endswith("3 of 3 continuations, 1 of them from before\n")
    assert endpoint.prompts() == list(PROMPTS.values())
    before = everything(tmp_path / "set")
    assert collect()[0] == 0
    assert len(endpoint.bodies) == 3
    assert everything(tmp_path / "set") == before


def test_a_smaller_count_forgets_no_case(collect: Collect, tmp_path: Path) -> None:
    collect()
    collect("--count", "1")
    assert sorted(case.id for case in read_manifest(tmp_path / "set")) == sorted(PROMPTS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-tokens", "8"], "max_tokens was 24, is 8"),
        (["--model", "deepseek-v4-pro"], "model was deepseek-v4-flash, is deepseek-v4-pro"),
        (["--thinking", "omit", "--top-logprobs", "3"], "top_logprobs was 5, is 3, thinking was disabled, is omit"),
    ],
)
def test_other_options_are_no_continuation_of_the_set(collect: Collect, words: list[str], said: str) -> None:
    collect("--count", "1")
    code, _, err = collect(*words)
    assert code == 2
    assert said in err


def test_another_text_under_the_same_id_is_refused(collect: Collect, tmp_path: Path) -> None:
    collect()
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "one", "prompt": "Something else"}\n')
    code, _, err = collect(prompts=other)
    assert code == 2
    assert "is another prompt than one now" in err


@pytest.mark.parametrize("fault", ["429", "500", "503", "cut", "hang up", "page 502"])
def test_what_may_pass_is_tried_again(
    collect: Collect, endpoint: FakeEndpoint, pauses: list[float], fault: str
) -> None:
    endpoint.faults = [fault, fault]
    code, _, err = collect("--count", "1")
    assert code == 0
    assert pauses == [1.0, 2.0]
    assert "try 2 of 6 in 1 s" in err
    assert len(endpoint.bodies) == 3


def test_six_tries_are_enough_and_nothing_is_lost(
    collect: Collect, endpoint: FakeEndpoint, pauses: list[float], tmp_path: Path
) -> None:
    endpoint.faults = ["", *["503"] * 6]
    code, _, err = collect()
    assert code == 1
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert "busy or broken (HTTP 503): told to say 503; given up after 6 tries" in err
    assert [case.id for case in read_manifest(tmp_path / "set")] == ["one"]
    assert collect()[0] == 0
    assert len(read_manifest(tmp_path / "set")) == 3


def test_the_pause_that_is_asked_for_is_made(collect: Collect, endpoint: FakeEndpoint, pauses: list[float]) -> None:
    endpoint.faults, endpoint.retry_after = ["429"], "17"
    assert collect()[0] == 0
    assert pauses == [17.0]


def test_nobody_waits_for_hours(collect: Collect, endpoint: FakeEndpoint, pauses: list[float]) -> None:
    endpoint.faults, endpoint.retry_after = ["429"], "7200"
    code, _, err = collect()
    assert code == 1
    assert pauses == []
    assert "asks for a pause of 7200 s" in err


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("page", "got a web page; is --endpoint an API's address"),
        ("not json", "expected a chat completion as JSON"),
        ("nan", "expected a chat completion as JSON"),
        ("strange", "no proper choices[0].message"),
        ("huge", "sent more than 8 MiB for one answer"),
        ("elsewhere", "points to http://127.0.0.1:1/chat/completions (HTTP 307)"),
        ("402", "the account has no balance left (HTTP 402): told to say 402"),
        ("403", "does not let this key do that (HTTP 403)"),
        ("404", "is no chat completions endpoint (HTTP 404)"),
        ("418", "answered HTTP 418: told to say 418; expected an answer"),
    ],
)
def test_what_will_not_pass_ends_it_with_a_reason(
    collect: Collect, endpoint: FakeEndpoint, pauses: list[float], tmp_path: Path, fault: str, said: str
) -> None:
    endpoint.faults = ["", fault]
    code, _, err = collect()
    assert code == 1
    assert said in err
    assert pauses == []
    assert [case.id for case in read_manifest(tmp_path / "set")] == ["one"]


def test_a_wrong_key_is_said_and_shown_nowhere(
    collect: Collect, endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-wrong-but-secret")
    code, out, err = collect()
    assert code == 1
    assert "refused the key from DEEPSEEK_API_KEY (HTTP 401): Your api key: [key] is invalid" in err
    assert "sk-wrong-but-secret" not in out + err
    assert endpoint.headers[0]["authorization"] == "Bearer sk-wrong-but-secret"


def test_a_missing_key_is_said(collect: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY")
    code, _, err = collect()
    assert code == 1
    assert "wants a key (HTTP 401)" in err
    assert "set DEEPSEEK_API_KEY" in err


def test_the_official_address_is_not_asked_without_a_key(
    in_process: Callable[[Sequence[str]], tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    code, _, err = in_process(["score", "collect", "-o", str(tmp_path / "set")])
    assert code == 2
    assert "https://api.deepseek.com wants a key: set DEEPSEEK_API_KEY" in err


def test_the_key_is_in_no_file_even_when_the_answer_quotes_it(
    collect: Collect, endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    endpoint.faults = ["echo"]
    assert collect()[0] == 0
    files = everything(tmp_path / "set")
    assert not any(KEY.encode() in data for data in files.values())
    assert b"Bearer [key]" in files["continuations/one.txt"]


def test_no_logprobs_are_said_and_can_be_done_without(collect: Collect, endpoint: FakeEndpoint, tmp_path: Path) -> None:
    endpoint.has_logprobs = False
    code, _, err = collect()
    assert code == 1
    assert "sent no log-probabilities for deepseek-v4-flash; give --top-logprobs 0" in err
    for file in (tmp_path / "set").glob("*.json"):
        file.unlink()
    assert collect("--top-logprobs", "0")[0] == 0
    assert "logprobs" not in endpoint.bodies[-1]
    assert not (tmp_path / "set" / "official.vec").exists()


def test_a_refused_prompt_does_not_end_the_others(collect: Collect, endpoint: FakeEndpoint, tmp_path: Path) -> None:
    endpoint.refused = {"What is one?"}
    endpoint.answers["3"] = ""
    code, out, err = collect()
    assert code == 1
    assert "1 of 3 continuations" in out
    assert "one: refused (HTTP 400): Content Exists Risk" in err
    assert "three: the answer has no text (it ended by length)" in err
    assert "2 prompts were not answered (one, three)" in err
    assert [case.id for case in read_manifest(tmp_path / "set")] == ["two"]


def test_when_all_prompts_are_refused_it_is_not_their_fault(
    endpoint: FakeEndpoint, tmp_path: Path, in_process: Callable[[Sequence[str]], tuple[int, str, str]]
) -> None:
    endpoint.faults = ["400"] * 100
    code, _, err = in_process(["score", "collect", "-o", str(tmp_path / "set"), "--endpoint", endpoint.url])
    assert code == 1
    assert "the first 3 prompts were not answered: refused (HTTP 400): told to say 400" in err
    assert len(endpoint.bodies) == 3


def test_a_cut_character_is_left_out(collect: Collect, endpoint: FakeEndpoint, tmp_path: Path) -> None:
    endpoint.answers["3"] = "Grüße �"
    assert collect()[0] == 0
    assert (tmp_path / "set" / "continuations" / "three.txt").read_text() == "Grüße �"  # it was in the bytes
    assert not list((tmp_path / "set").rglob("*.partial"))


def test_a_folder_of_texts_gives_prompts(collect: Collect, endpoint: FakeEndpoint, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "b.txt").write_text("second\n")
    (folder / "a.txt").write_text("first")
    (folder / "notes.md").write_text("not a prompt")
    assert collect("--max-tokens", "3", prompts=folder)[0] == 0
    assert endpoint.prompts() == ["first", "second\n"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p.jsonl", '{"id": "../x", "prompt": "y"}', "is no id"),
        ("p.jsonl", '{"id": "A", "prompt": "y"}\n{"id": "a", "prompt": "z"}', "differ by case only"),
        ("p.jsonl", '{"id": "a", "prompt": " "}', "line 1: expected a text or an object"),
        ("p.jsonl", '{"id": "a", "text": "y"}', "line 1: expected a text or an object"),
        ("p.jsonl", '{"id": "a", "prompt": "y", "n": 1}', "unknown member 'n'"),
        ("p.jsonl", '{"id": 3, "prompt": "y"}', "'id' is not a text"),
        ("p.jsonl", '"\\ud800"', "half of a surrogate pair"),
        ("p.jsonl", "[" * 100_000, "not JSON"),
        ("p.jsonl", "\n\n", "expected at least one prompt"),
        ("p.txt", "# only\n", "expected at least one prompt"),
    ],
)
def test_prompts_that_cannot_be_are_refused(
    collect: Collect, endpoint: FakeEndpoint, tmp_path: Path, name: str, text: str, said: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    code, _, err = collect(prompts=path)
    assert code == 1
    assert said in err
    assert endpoint.bodies == []


@pytest.mark.parametrize(
    "address",
    [
        "api.deepseek.com",
        "ftp://x/y",
        "http://",
        "http://user:pass@host/v1",
        "http://host/v1?x=1",
        "http://[::1",
        "http://h:0",
    ],
)
def test_addresses_that_are_none_are_refused(
    in_process: Callable[[Sequence[str]], tuple[int, str, str]], tmp_path: Path, address: str
) -> None:
    code, _, err = in_process(["score", "collect", "-o", str(tmp_path / "set"), "--endpoint", address])
    assert code == 2
    assert "expected an address such as https://api.deepseek.com" in err
    assert "pass" not in err or "password" in err
    assert not (tmp_path / "set").exists()


def test_a_damaged_collection_is_not_written_into(collect: Collect, endpoint: FakeEndpoint, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "collection.json").write_text("{")
    code, _, err = collect()
    assert code == 1
    assert "is damaged" in err
    assert endpoint.bodies == []


def test_ctrl_c_keeps_what_has_come(
    collect: Collect, endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(pause_s: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(score_collect.time, "sleep", interrupt)
    endpoint.faults = ["", "", "503"]
    with pytest.raises(SystemExit, match="130"):
        collect()
    assert [case.id for case in read_manifest(tmp_path / "set")] == ["one", "two"]
    assert not list((tmp_path / "set").rglob("*.partial"))


def test_an_endpoint_that_falls_silent_is_left(endpoint: FakeEndpoint) -> None:
    endpoint.faults = ["silence"]
    with pytest.raises(AskAgainError, match="no whole answer"):
        Endpoint(f"{endpoint.url}/chat/completions", ApiKey(KEY), silence_s=0.1).ask({"messages": [{"content": "x"}]})


def test_answers_with_thoughts_are_no_vectors(collect: Collect, endpoint: FakeEndpoint, tmp_path: Path) -> None:
    assert collect("--thinking", "enabled")[0] == 0
    assert endpoint.bodies[0]["thinking"] == {"type": "enabled"}
    assert not (tmp_path / "set" / "official.vec").exists()


def test_nothing_is_said_about_thinking_where_that_is_wished(collect: Collect, endpoint: FakeEndpoint) -> None:
    assert collect("--thinking", "omit")[0] == 0
    assert "thinking" not in endpoint.bodies[0]
