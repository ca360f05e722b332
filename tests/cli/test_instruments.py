import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from fakes.models import FakeModel, expected_logits
from whitedwarf.cli.npy_file import NpyRows
from whitedwarf.cli.perplexity import measure
from whitedwarf.cli.scoring import logit_chunks
from whitedwarf.errors import UsageError
from whitedwarf.prompt.tokenizer import Tokenizer

InProcess = Callable[[Sequence[str]], tuple[int, str, str]]
CAPITAL = "What is the capital of France?"


@pytest.fixture
def ids_file(tmp_path: Path, nano_tokenizer: Tokenizer) -> Path:
    path = tmp_path / "ids.json"
    path.write_text(json.dumps(nano_tokenizer.encode(CAPITAL * 3)))
    return path


# tokens


def test_tokens_shows_ids_and_vocabulary_strings(in_process: InProcess, nano_tokenizer: Tokenizer) -> None:
    text = "<｜User｜>Hi é\n</｜DSML｜x>"
    code, out, _ = in_process(["tokens", "-p", text])
    first, *lines = out.splitlines()
    ids = nano_tokenizer.encode_rendered(text)
    assert (code, json.loads(first)) == (0, ids)
    assert first == "[" + ", ".join(map(str, ids)) + "]"
    assert lines == [f"{token_id:6d}  {nano_tokenizer.vocabulary.tokens[token_id]}" for token_id in ids]
    assert lines[0].endswith("  <｜User｜>")


def test_plain_tokens_hold_no_control_token(in_process: InProcess, nano_tokenizer: Tokenizer) -> None:
    code, out, _ = in_process(["tokens", "--plain", "--json", "-p", "<｜User｜>Hi"])
    document = json.loads(out)
    assert (code, document["ids"]) == (0, nano_tokenizer.encode("<｜User｜>Hi"))
    assert len(document["tokens"]) == len(document["ids"])


def test_tokens_of_a_file_that_is_not_text_are_refused(in_process: InProcess, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"ok\xff")
    code, _, err = in_process(["tokens", "--prompt-file", str(tmp_path / "binary")])
    assert code == 1
    assert "expected UTF-8 text, found byte 0xff at offset 2" in err


# logits


def test_logits_do_not_depend_on_the_chunks(in_process: InProcess, ids_file: Path, tmp_path: Path) -> None:
    arrays = []
    for chunk in ("1", "7", "512"):
        out = tmp_path / f"{chunk}.npy"
        code, text, _ = in_process(["logits", "--ids-file", str(ids_file), "--out", str(out), "--chunk", chunk])
        assert (code, text) == (0, "")
        arrays.append(np.load(out))
    assert arrays[0].dtype == np.float32
    assert arrays[0].shape == (len(json.loads(ids_file.read_text())), 4096)
    for other in arrays[1:]:
        np.testing.assert_array_equal(arrays[0].argmax(axis=1), other.argmax(axis=1))
        np.testing.assert_allclose(arrays[0], other, atol=1e-3)


def test_last_is_the_last_row(in_process: InProcess, ids_file: Path, tmp_path: Path) -> None:
    words = ["logits", "--ids-file", str(ids_file), "--kv-cache", "f32", "--quality", "--chunk", "5"]
    in_process([*words, "--out", str(tmp_path / "all.npy")])
    in_process([*words, "--out", str(tmp_path / "last.npy"), "--last"])
    last = np.load(tmp_path / "last.npy")
    assert last.shape == (1, 4096)
    np.testing.assert_array_equal(last[0], np.load(tmp_path / "all.npy")[-1])


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("[]", 1, "expected a JSON list of at least one token id"),
        ("[1, true]", 1, "expected a JSON list"),
        ("[1.5]", 1, "expected a JSON list"),
        ('{"ids": [1]}', 1, "expected a JSON list"),
        ("[1, 2", 1, "it is not JSON"),
        ("[1, 4096]", 2, "expected token ids from 0 to 4095, got 4096"),
        ("[-1]", 2, "expected token ids from 0 to 4095, got -1"),
        (json.dumps([5] * 40), 1, "40 tokens do not fit in the context of 32"),
    ],
)
def test_bad_ids_are_refused_and_leave_no_file(
    text: str, code: int, message: str, in_process: InProcess, tmp_path: Path
) -> None:
    (tmp_path / "ids.json").write_text(text)
    out = tmp_path / "out.npy"
    words = ["logits", "--ids-file", str(tmp_path / "ids.json"), "--out", str(out), "--ctx", "32"]
    found, _, err = in_process(words)
    assert found == code
    assert message in err
    assert list(tmp_path.iterdir()) == [tmp_path / "ids.json"]


def test_a_place_that_cannot_be_written_is_told(in_process: InProcess, ids_file: Path, tmp_path: Path) -> None:
    words = ["logits", "--ids-file", str(ids_file), "--out", str(tmp_path / "no" / "out.npy")]
    code, _, err = in_process(words)
    assert (code, "cannot write" in err) == (2, True)


def test_a_folder_is_no_place_for_an_array(in_process: InProcess, ids_file: Path, tmp_path: Path) -> None:
    code, _, err = in_process(["logits", "--ids-file", str(ids_file), "--out", str(tmp_path)])
    assert (code, err.splitlines()[-1]) == (
        2,
        f"whitedwarf: cannot write {tmp_path}: it is a folder; give the name of a file",
    )


@pytest.mark.parametrize("csv", ["", "no/such/folder.csv"])
def test_bench_looks_for_the_place_of_its_csv_before_it_measures(
    in_process: InProcess, tmp_path: Path, csv: str
) -> None:
    code, out, err = in_process(["bench", "--csv", str(tmp_path / csv)])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot write" in err


def test_an_unfinished_array_never_appears(tmp_path: Path) -> None:
    def interrupted() -> None:
        with NpyRows(tmp_path / "x.npy", 2, 3) as rows:
            rows.write(np.zeros((1, 3), np.float32))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_chunks_carry_the_logits_after_each_id() -> None:
    ids = [3, 1, 4, 1, 5, 9, 2]
    chunks = list(logit_chunks(FakeModel(), ids, 3))
    assert [done for done, _ in chunks] == [3, 6, 7]
    expected = [expected_logits(ids[: i + 1], 64) for i in range(len(ids))]
    np.testing.assert_array_equal(np.concatenate([logits for _, logits in chunks]), expected)
    (last,) = [logits for _, logits in logit_chunks(FakeModel(), ids, 3, only_last=True) if len(logits)]
    np.testing.assert_array_equal(last, expected[-1:])
    with pytest.raises(UsageError):
        list(logit_chunks(FakeModel(), [64], 3))


# perplexity


def test_perplexity_scores_every_token_after_the_first_32() -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 64, 300).tolist()
    nll = 0.0
    for position in range(32, 300):
        logits = expected_logits(ids[:position], 64).astype(np.float64)
        nll += math.log(np.exp(logits).sum()) - logits[ids[position]]
    result = measure(FakeModel(), ids, 300)
    assert result.scored == 268
    assert result.nll == pytest.approx(nll, rel=1e-9)


def test_perplexity_prints_one_line_with_nine_decimals(in_process: InProcess, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(CAPITAL * 20)
    code, out, _ = in_process(["perplexity", str(tmp_path / "text.txt"), "-n", "20"])
    assert code == 0
    fields = dict(field.split("=") for field in out.split())
    assert list(fields) == ["tokens", "scored", "nll", "avg_nll", "ppl"]
    assert fields["scored"] == "20"
    assert all(len(fields[name].partition(".")[2]) == 9 for name in ("nll", "avg_nll", "ppl"))
    assert float(fields["ppl"]) == pytest.approx(math.exp(float(fields["avg_nll"])))
    code, out, _ = in_process(["perplexity", str(tmp_path / "text.txt"), "-n", "20", "--json"])
    assert json.loads(out)["nll"] == pytest.approx(float(fields["nll"]))


def test_perplexity_is_bounded_by_the_context(in_process: InProcess, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(CAPITAL * 20)
    _, out, _ = in_process(["perplexity", str(tmp_path / "text.txt"), "--ctx", "48"])
    assert "scored=16 " in out
    code, _, err = in_process(["perplexity", str(tmp_path / "text.txt"), "--ctx", "32"])
    assert (code, "leaves nothing to score" in err) == (2, True)


def test_perplexity_of_too_short_a_text_is_refused(in_process: InProcess, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("short")
    code, _, err = in_process(["perplexity", str(tmp_path / "text.txt")])
    assert (code, "expected more than the 32" in err) == (2, True)


# logprobs


def test_logprobs_tell_each_step_up_to_the_end(
    in_process: InProcess, tmp_path: Path, nano_tokenizer: Tokenizer
) -> None:
    out = tmp_path / "logprobs.json"
    words = ["logprobs", "--nothink", "-p", CAPITAL, "--logprobs-top-k", "3"]
    code, text, _ = in_process(words)
    assert code == 0
    assert in_process([*words, "--out", str(out)])[:2] == (0, "")
    assert out.read_text() == text
    document = json.loads(text)
    assert {key: document[key] for key in ("source", "prompt_tokens", "ctx", "top_k")} == {
        "source": "whitedwarf",
        "prompt_tokens": 16,
        "ctx": 32768,
        "top_k": 3,
    }
    steps = document["steps"]
    assert [step["step"] for step in steps] == list(range(len(steps)))
    said = b"".join(bytes(step["selected"]["bytes"]) for step in steps).decode()
    assert said == "The capital of France is Paris.<｜end▁of▁sentence｜>"
    for step in steps:
        best = step["top_logprobs"]
        assert len(best) == 3
        assert best[0]["token"] == step["selected"]
        assert best[0]["logprob"] >= best[1]["logprob"] >= best[2]["logprob"]
        assert best[0]["logit"] - best[1]["logit"] == pytest.approx(best[0]["logprob"] - best[1]["logprob"], abs=1e-4)


def test_logprobs_stop_after_the_asked_steps(in_process: InProcess) -> None:
    _, text, _ = in_process(["logprobs", "--nothink", "-p", CAPITAL, "-n", "2", "--logprobs-top-k", "1"])
    assert len(json.loads(text)["steps"]) == 2
    code, _, err = in_process(["logprobs", "-p", "x", "--logprobs-top-k", "129"])
    assert (code, "Must be <= 128" in err) == (2, True)


def test_token_text_that_is_not_utf8_shows_its_bytes(nano_tokenizer: Tokenizer) -> None:
    from whitedwarf.cli.logprobs import describe_token

    lead = nano_tokenizer.vocabulary.tokens.index("â")
    assert describe_token(nano_tokenizer, lead) == {"id": lead, "text": "\u00e2", "bytes": [0xE2]}
