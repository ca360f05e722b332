"""Manifests, tables, vector files and replies: what is written is read back, and what is wrong is named."""

import contextlib
import json
import string
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.errors import EndpointError, FileFormatError, UsageError, WhitedwarfError
from whitedwarf.evals.score.case_files import Case, manifest_text, read_manifest
from whitedwarf.evals.score.endpoint import completions_url
from whitedwarf.evals.score.golden_vectors import MODES, GoldenCase, Top, golden_text, read_golden
from whitedwarf.evals.score.measuring import Score
from whitedwarf.evals.score.official_vectors import VectorCase, VectorStep, official_text, read_official
from whitedwarf.evals.score.prompts import built_in_prompts
from whitedwarf.evals.score.reply import Candidate, read_reply
from whitedwarf.evals.score.score_table import read_table, table_text
from whitedwarf.web.endpoint.address import is_overheard
from whitedwarf.web.endpoint.again import asked_pause_s
from whitedwarf.web.endpoint.api_key import ApiKey, find_key
from whitedwarf.web.endpoint.complaint import complaint

IDS = st.text(string.ascii_lowercase + string.digits + "._-", min_size=1, max_size=12).filter(
    lambda x: x[0] not in ".-"
)
NAMES = st.text(string.ascii_letters + "/.", min_size=1, max_size=12)
LOGPROBS = st.floats(-50, 0, width=32)
CANDIDATES = st.lists(
    st.builds(Candidate, st.binary(min_size=1, max_size=6), LOGPROBS), max_size=4, unique_by=lambda item: item.data
).map(tuple)
STEPS = st.lists(st.builds(VectorStep, st.binary(min_size=1, max_size=6), CANDIDATES), min_size=1, max_size=3).map(
    tuple
)
OFFICIAL = st.lists(
    st.builds(VectorCase, IDS, st.integers(1, 10**6), NAMES, STEPS), min_size=1, max_size=3, unique_by=lambda x: x.id
)
TOPS = st.lists(
    st.builds(Top, st.integers(0, 10**6), st.floats(-100, 100, width=32)),
    min_size=1,
    max_size=5,
    unique_by=lambda t: t.id,
).map(lambda tops: tuple(sorted(tops, key=lambda top: -top.logit)))
GOLDEN = st.lists(
    st.builds(GoldenCase, IDS, st.sampled_from(MODES), st.integers(500, 900), st.integers(1, 500), NAMES, TOPS),
    min_size=1,
    max_size=3,
    unique_by=lambda case: case.id,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats")


def written(folder: Path, text: str, name: str = "file.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# vectors


@given(cases=OFFICIAL)
def test_official_vectors_are_read_as_they_were_written(folder: Path, cases: list[VectorCase]) -> None:
    path = written(folder, official_text(cases, "two\nlines"))
    found = read_official(path)
    assert [(case.id, case.context, case.prompt) for case in found] == [(c.id, c.context, c.prompt) for c in cases]
    for case, wanted in zip(found, cases, strict=True):
        assert [step.chosen for step in case.steps] == [step.chosen for step in wanted.steps]
        for step, other in zip(case.steps, wanted.steps, strict=True):
            assert [top.data for top in step.top] == [top.data for top in other.top]
            assert [top.logprob for top in step.top] == pytest.approx([top.logprob for top in other.top], rel=1e-8)


@given(cases=GOLDEN)
def test_golden_vectors_are_read_as_they_were_written(folder: Path, cases: list[GoldenCase]) -> None:
    text = golden_text(cases, "about")
    assert golden_text(read_golden(written(folder, text)), "about") == text


@given(cases=OFFICIAL, where=st.floats(0, 1))
def test_a_cut_official_file_is_never_taken_for_a_whole_one(
    folder: Path, cases: list[VectorCase], where: float
) -> None:
    lines = official_text(cases, "x").splitlines()
    end = 1 + int(where * (len(lines) - 2))
    cut = "\n".join(lines[:end])
    if lines[end - 1] == "end":  # a file of fewer cases
        assert len(read_official(written(folder, cut))) < len(cases)
        return
    with pytest.raises(FileFormatError):
        read_official(written(folder, cut))


WORDS = ["case", "step", "top", "end", "0", "1", "-1.5", "61", "zz", "#", "a.txt"]


@given(words=st.lists(st.sampled_from([*WORDS, "\n"]), max_size=60))
def test_nonsense_is_refused_in_words(folder: Path, words: list[str]) -> None:
    for read in (read_official, read_golden):
        with contextlib.suppress(FileFormatError):
            read(written(folder, " ".join(words)))


GOOD = "case a 100 1 a.txt\nstep 0 6162 1\ntop 6162 -0.5\nend\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("case a", "case a/b", "is no id"),
        ("100 1", "100 0", "expected STEPS, a whole number from 1"),
        ("100 1", "1e2 1", "expected CTX, a whole number from 1"),
        ("100 1", "100 2", "expected 'step', found 'end'"),
        ("step 0", "step 1", "expected step 0, found step 1"),
        ("step 0 6162", "step 0 616", "expected bytes as hexadecimal digits"),
        ("step 0 6162", "step 0 xy", "expected bytes as hexadecimal digits"),
        ("6162 1\n", "6162 2\n", "expected 'top', found 'end'"),
        ("6162 1\n", "6162 0\n", "expected 'end', found 'top'"),
        ("-0.5", "0.5", "is no log-probability"),
        ("-0.5", "nan", "expected LOGPROB, a number"),
        ("-0.5", "-inf", "is no log-probability"),
        ("-0.5", "-0.5 1", "expected 2 words after 'top', found 3"),
        ("end\n", "", "the file ends; is it cut off?"),
        ("end\n", "end\n" + GOOD, "the id 'a' is there twice"),
        (GOOD, "# nothing\n", "expected at least one line `case ...`"),
        ("1\ntop 6162 -0.5", "2\ntop 6162 -0.5\ntop 6162 -0.6", "among its candidates twice"),
    ],
)
def test_a_fault_of_an_official_file_is_named_with_its_line(folder: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(FileFormatError, match=r"file\.txt") as caught:
        read_official(written(folder, GOOD.replace(old, new, 1)))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("case a chatty 9 1 p 1\ntop 0 1 2\n", "expected a mode of text, rendered, chat, got 'chatty'"),
        ("case a chat 9 10 p 1\ntop 0 1 2\n", "a frontier of 10 does not fit in a context of 9"),
        ("case a chat 9 1 p 2\ntop 0 1 2\ntop 2 2 1\n", "expected rank 1, found 2"),
        ("case a chat 9 1 p 2\ntop 0 1 2\ntop 1 1 1\n", "among the likeliest twice"),
        ("case a chat 9 1 p 2\ntop 0 1 1\ntop 1 2 2\n", "expected the likeliest tokens first"),
        ("case a chat 9 1 p 1\ntop 0 -1 2\n", "expected ID, a whole number from 0"),
    ],
)
def test_a_fault_of_a_golden_file_is_named(folder: Path, text: str, said: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        read_golden(written(folder, text))
    assert said in str(caught.value)


def test_a_golden_case_may_be_closed_as_an_official_one(folder: Path) -> None:
    text = "case a chat 9 1 p 1\ntop 0 1 2\nend\ncase b text 9 1 p 1\ntop 0 1 2\n"
    assert [case.id for case in read_golden(written(folder, text))] == ["a", "b"]


# manifests and tables


def test_a_manifest_is_read_as_it_was_written_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [Case(name, *(tmp_path / f"{name}.{part}" for part in ("p", "c", "r"))) for name in ("a", "b")]
    for case in cases:
        case.prompt.write_text("x")
    path = written(tmp_path, manifest_text(cases, tmp_path), "manifest.tsv")
    assert read_manifest(path) == read_manifest(tmp_path)
    monkeypatch.chdir("/")
    assert [case.prompt for case in read_manifest(path)] == [case.prompt for case in cases]


def test_a_manifest_may_name_paths_as_seen_from_a_folder_above(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.txt").write_text("x")
    path = written(tmp_path, "a\tset/a.txt\tset/a.txt\tset/a.json\n", "set/manifest.tsv")
    assert read_manifest(path)[0].prompt.read_text() == "x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected at least one case"),
        ("id\tprompt\tcontinuation\tresponse\n", "expected at least one case"),
        ("a\tb\n", "line 1: expected id, prompt, continuation and response"),
        ("# x\na b c d\n", "line 2: expected id, prompt, continuation and response"),
        ("a b\tp\tc\tr\n", "line 1: 'a b' is no id"),
        ("a\tp\tc\tr\na\tp\tc\tr\n", "is there twice"),
    ],
)
def test_a_fault_of_a_manifest_is_named(folder: Path, text: str, said: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        read_manifest(written(folder, text))
    assert said in str(caught.value)


@given(
    scores=st.lists(
        st.builds(
            Score, IDS, st.integers(1, 9999), st.integers(5, 99), st.floats(0, 1e4), st.booleans(), st.integers(0, 5)
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda score: score.id,
    )
)
def test_a_table_is_read_as_it_was_written(folder: Path, scores: list[Score]) -> None:
    found = read_table(written(folder, table_text(scores)))
    assert [score.id for score in found] == [score.id for score in scores]
    assert [score.nll for score in found] == pytest.approx([score.nll for score in scores], abs=1e-8)
    assert [score.greedy_lcp for score in found] == [score.greedy_lcp for score in scores]


HEADER = "id\tprompt_tokens\ttarget_tokens\tnll\tavg_nll\tfirst_match\tgreedy_lcp\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column id"),
        (HEADER.replace("\tnll\t", "\t"), "no column nll"),
        (HEADER, "expected at least one case"),
        (HEADER + "a\t1\t2\t0.5\t0.25\t1\n", "line 2: expected 7 values"),
        (HEADER + "a\t1\t2\tx\t0.25\t1\t1\n", "line 2: expected numbers"),
        (HEADER + "a\t1\t2\tnan\t0.25\t1\t1\n", "a finite nll"),
        (HEADER + "a\t1\t2\t0.5\t0.25\t2\t1\n", "first_match 0 or 1"),
        (HEADER + "a\t1\t2\t0.5\t0.25\t1\t3\n", "greedy_lcp up to target_tokens"),
        (HEADER + "a\t1\t0\t0.5\t0.25\t1\t0\n", "counts of at least 1"),
    ],
)
def test_a_fault_of_a_table_is_named(folder: Path, text: str, said: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        read_table(written(folder, text))
    assert said in str(caught.value)


# replies, keys, pauses


def reply_of(content: str, pieces: list[bytes]) -> bytes:
    steps = [{"token": "?", "logprob": -0.5, "bytes": list(piece), "top_logprobs": []} for piece in pieces]
    choice = {"message": {"content": content}, "logprobs": {"content": steps}, "finish_reason": "length"}
    return json.dumps({"choices": [choice]}).encode()


def test_a_character_that_was_cut_is_left_out() -> None:
    smile = "🙂".encode()
    assert read_reply(reply_of("so \ufffd", [b"so ", smile[:2]])).text == "so "
    assert read_reply(reply_of("so 🙂", [b"so ", smile[:2], smile[2:]])).text == "so 🙂"
    assert read_reply(reply_of("so \ufffd", [b"so ", "\ufffd".encode()])).text == "so \ufffd"
    assert read_reply(reply_of("so \ufffd", [])).text == "so "


@pytest.mark.parametrize(
    ("drawn", "reason", "has_gap"),
    [(2, "length", False), (3, "length", True), (3, "stop", False), (4, "stop", True), ("3", "length", False)],
)
def test_a_token_that_is_not_listed_is_noticed(drawn: object, reason: str, has_gap: bool) -> None:
    body = json.loads(reply_of("so so", [b"so", b" so"]))
    body["choices"][0]["finish_reason"] = reason
    body["usage"] = {"completion_tokens": drawn}
    assert read_reply(json.dumps(body).encode()).has_gap is has_gap


def test_candidates_without_bytes_are_their_text() -> None:
    entry = {"token": "né", "logprob": -1, "bytes": None, "top_logprobs": None}
    body = {"choices": [{"message": {"content": "né"}, "logprobs": {"content": [entry]}}]}
    assert read_reply(json.dumps(body).encode()).steps[0].chosen == Candidate("né".encode(), -1.0)


MEMBERS = ["choices", "message", "content", "logprobs", "token", "logprob", "bytes"]


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_refused(value: object) -> None:
    with contextlib.suppress(EndpointError):
        read_reply(json.dumps(value).encode())


@given(data=st.binary(max_size=40))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(EndpointError):
        read_reply(data)
    complaint(data)


def test_an_address_may_be_the_api_s_or_the_whole_one() -> None:
    for text in ("https://h:1/v1", "https://h:1/v1/", "https://h:1/v1/chat/completions"):
        assert completions_url(text) == "https://h:1/v1/chat/completions"


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://api.deepseek.com/x", False),
        ("http://localhost:1/x", False),
        ("http://127.0.0.9/x", False),
        ("http://[::1]:8/x", False),
        ("http://192.168.1.7/x", True),
        ("http://api.deepseek.com/x", True),
    ],
)
def test_a_key_without_encryption_is_noticed(url: str, wanted: bool) -> None:
    assert is_overheard(url) == wanted


def test_a_key_shows_itself_nowhere() -> None:
    key = find_key("DEEPSEEK_API_KEY", {"DEEPSEEK_API_KEY": " sk-abcdefgh \n"})
    assert key is not None
    assert "sk-abcdefgh" not in repr(key)
    assert key.hide("bad sk-abcdefgh!") == "bad [key]!"
    assert ApiKey("none").hide("none of these") == "none of these"
    assert find_key("DEEPSEEK_API_KEY", {}) is None
    with pytest.raises(WhitedwarfError, match="is no key") as caught:
        find_key("DEEPSEEK_API_KEY", {"DEEPSEEK_API_KEY": "sk-abc\ndef"})
    assert "sk-abc" not in str(caught.value).replace("such as sk-abc...", "")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("", 0), ("5", 5), ("2.5", 2.5), ("-3", 0), ("soon", 0), ("Mon, 30 Nov 2026 12:00:30 GMT", 30), ("1" * 40, 1e9)],
)
def test_pauses_are_seconds_or_dates(header: str, seconds: float) -> None:
    assert asked_pause_s({"Retry-After": header}, datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)) == seconds


def test_our_prompts_are_many_and_mixed() -> None:
    prompts = built_in_prompts()
    kinds = {prompt.id.partition("-")[0] for prompt in prompts[:20]}
    assert len(prompts) >= 100
    assert len({prompt.text for prompt in prompts}) == len(prompts)
    assert kinds == {"fact", "code", "reason", "lang", "json", "text", "long"}
    assert all(len(prompt.text) < 10_000 for prompt in prompts)


def test_a_file_s_name_with_a_nul_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_official(Path("a\0b"))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a file without an end")
def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(FileFormatError, match="has more than 64 MiB"):
        read_official(Path("/dev/zero"))
