"""`steer build` and `steer sweep` on the bundled model: a behaviour goes with the scale; scale 0 is the plain model."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from whitedwarf.cli.steer_build import example_files
from whitedwarf.cli.steer_prompts import SteerPrompt, read_prompts
from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.weights.store import bundled_model, load_tensors

Call = Callable[[Sequence[str]], tuple[int, str, str]]

LAYERS, WIDTH = 6, 256
HELLO = "Hello"
OPEN_QUESTIONS = ("Tell me something.", "Is anybody there?", "Talk to me", "No", "Are you there?")
SUMS = ("What is 12 plus 28?", "Calculate 76+87", "How much is 31 plus 74?", "What is 5 plus 9?", "Calculate 23+61")
OTHERS = ("Define a tree.", "Tell me the opposite of early.", "good morning", "Symbol for gold?", "hello")
NEW_SUMS = {"What is 12 plus 31?": "12", "Calculate 15+20": "15", "How much is 33 plus 41?": "33"}


@pytest.fixture
def steer(in_process: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        return in_process(["steer", *words])

    return call


@pytest.fixture(scope="module")
def planted() -> np.ndarray:
    """In the last layer, the direction of feed-forward output that the head reads as a wish to say Hello."""
    with open_gguf(bundled_model()) as gguf:
        tensors = load_tensors(gguf)
        head = np.array(tensors["output.weight"].floats()) * np.array(tensors["output_norm.weight"].floats())
        (token,) = tokenizer_of(gguf).encode(HELLO)
    apart = head - head.mean(axis=0)
    spread = apart.T @ apart / len(apart)  # other words' share in the direction is taken out of it, as far as it goes
    wish = np.linalg.solve(spread + np.trace(spread) / WIDTH * np.eye(WIDTH), apart[token])
    directions = np.zeros((LAYERS, WIDTH), "<f4")
    directions[-1] = wish / np.linalg.norm(wish)
    return directions


def tokenizer_of(gguf):  # type: ignore[no-untyped-def]
    from whitedwarf.prompt.tokenizer import Tokenizer

    return Tokenizer.from_metadata(gguf.metadata)


def table(out: str) -> dict[float, list[float]]:
    """log-probability, per token and probability in percent, by scale."""
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:2] == ["scale", "log-probability"]
    return {float(scale): [float(a), float(b), float(c.rstrip("%"))] for scale, a, b, c, _ in lines[1:]}


def test_a_planted_direction_moves_the_planted_behaviour_monotonically(steer, planted: np.ndarray) -> None:
    planted.tofile("hello.f32")
    Path("prompts.txt").write_text("\n".join(OPEN_QUESTIONS))
    asked = ("--steering", "hello.f32", "--prompts", "prompts.txt", "--behaviour", HELLO)
    code, out, err = steer("sweep", *asked, "--scales=-6,-4,-2,-1,-0.5,0,0.5,1,2,4,6", "--out", "all.jsonl")
    assert code == 0, err
    means = [row[0] for row in table(out).values()]
    assert all(before > after + 0.1 for before, after in pairwise(means)), out
    rows = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    assert len(rows) == 11 * len(OPEN_QUESTIONS)
    for prompt in OPEN_QUESTIONS:  # not only on average
        alone = [row["logprob"] for row in rows if row["prompt"] == prompt]
        assert alone == sorted(alone, reverse=True)


def test_scale_0_is_the_plain_model_to_the_bit(steer, in_process: Call, planted: np.ndarray) -> None:
    planted.tofile("hello.f32")
    Path("ids.json").write_text(json.dumps(list(range(100, 200))))
    written = {}
    for name, flags in {
        "plain": [],
        "zero": ["--steering", "hello.f32", "--dir-steering-ffn", "0", "--dir-steering-attn", "0"],
        "one": ["--steering", "hello.f32"],
    }.items():
        code, _, err = in_process(["logits", "--ids-file", "ids.json", "--out", f"{name}.npy", *flags])
        assert code == 0, err
        written[name] = Path(f"{name}.npy").read_bytes()
    assert written["plain"] == written["zero"] != written["one"]


@pytest.mark.parametrize("words", [["perplexity", "text"], ["logprobs", "-p", "hello", "--nothink", "-n", "3"]])
def test_other_instruments_are_steered_too(words: list[str], steer, in_process: Call, planted: np.ndarray) -> None:
    planted.tofile("hello.f32")
    Path("text").write_text("The capital of France is Paris, and the opposite of hot is cold. " * 4)
    told = {scale: in_process([*words, "--steering", "hello.f32", "--dir-steering-ffn", scale]) for scale in "012"}
    assert [code for code, _, _ in told.values()] == [0, 0, 0]
    assert told["0"][1] == in_process(words)[1]
    assert len({out for _, out, _ in told.values()}) == 3


def test_a_built_direction_takes_the_behaviour_away(steer) -> None:
    Path("sums.txt").write_text("# sums\n\n" + "\n".join(SUMS) + "\n")
    Path("others.jsonl").write_text("\n".join(map(json.dumps, OTHERS)) + "\n\n")
    Path("new.jsonl").write_text(
        "".join(json.dumps({"prompt": prompt, "behaviour": text}) + "\n" for prompt, text in NEW_SUMS.items())
    )
    built = ("--good", "sums.txt", "--bad", "others.jsonl", "--out", "sums.f32", "--component", "attn_out")
    code, out, err = steer("build", *built)
    assert (code, out) == (0, "sums.f32: 6 directions of 256, from 5 pairs of prompts\n"), err
    facts = json.loads(Path("sums.json").read_text())
    assert (facts["format"], facts["shape"]) == ("ds4-directional-steering-v1", [LAYERS, WIDTH])
    assert (facts["component"], facts["thinking"], facts["orthogonalize_control_mean"]) == ("attn_out", False, True)
    directions = np.fromfile("sums.f32", "<f4").reshape(LAYERS, WIDTH)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, atol=1e-5)
    swept = ("--steering", "sums.f32", "--prompts", "new.jsonl", "--component", "attn", "--scales", "0,0.75,1.5,3")
    code, out, err = steer("sweep", *swept)
    assert code == 0, err
    means = [row[2] for row in table(out).values()]
    assert means == sorted(means, reverse=True)
    assert means[0] > 99
    assert means[-1] < 1


def test_building_twice_gives_the_same_file_and_options_other_ones(steer) -> None:
    Path("good").write_text("\n".join(SUMS))
    Path("bad").write_text("\n".join(OTHERS[:3]))
    files = set()
    for number, flags in enumerate(([], ["--prefill-chunk", "7"], ["--think"], ["--pair-normalize"], ["--system", ""])):
        code, _, err = steer("build", "--good", "good", "--bad", "bad", "--out", f"{number}.json", *flags)
        assert code == 0, err
        assert "5 good and 3 bad prompts: the first 3 of each are used" in err
        files.add(Path(f"{number}.f32").read_bytes())
    assert len(files) == 4
    assert Path("0.f32").read_bytes() == Path("1.f32").read_bytes()


def test_answers_are_shown_where_they_are_asked_for(steer, planted: np.ndarray) -> None:
    planted.tofile("hello.f32")
    Path("prompts.txt").write_text("Tell me something.")
    code, out, err = steer(
        "sweep", "--steering", "hello.f32", "--prompts", "prompts.txt", "--behaviour", HELLO,
        "--scales=-4,4", "--component", "both", "--answers", "6",
    )  # fmt: skip
    assert code == 0, err
    drawn = out.splitlines()[3:]
    assert len(drawn) == 2
    assert "-> Hello" in drawn[0]
    assert "-> Hello" not in drawn[1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["build", "--good", "none", "--bad", "p", "--out", "a.f32"], "cannot read none"),
        (["build", "--good", "p", "--bad", "p", "--out", "a.bin"], "ends in .f32"),
        (["build", "--good", "p", "--bad", "p", "--out", "no/a.f32"], "there is no folder no"),
        (["build", "--good", "p", "--bad", "p", "--out", "a.f32"], "do not differ in any layer"),
        (["sweep", "--steering", "none", "--prompts", "p", "--behaviour", "a"], "none: expected a readable file"),
        (["sweep", "--steering", "f.f32", "--prompts", "p"], "Give --behaviour TEXT"),
        (["sweep", "--steering", "f.f32", "--prompts", "p", "--behaviour", "a", "--scales", "1,x"], "numbers with"),
        (["sweep", "--steering", "f.f32", "--prompts", "p", "--behaviour", "a", "--scales=-101"], "got -101"),
        (["sweep", "--steering", "f.f32", "--prompts", "p", "--behaviour", "a"], "expected 6144"),
        (["sweep", "--steering", "f.f32", "--prompts", "p", "--behaviour", "a", "--out", "p"], "it is p"),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_is_written(words: list[str], told: str, steer) -> None:
    Path("p").write_text("hello\n")
    Path("f.f32").write_bytes(b"\0\0\x80?" * 10)
    code, _, err = steer(*words)
    assert code in (1, 2)
    assert told in err
    assert sorted(path.name for path in Path().iterdir()) == ["f.f32", "p"]


def test_prompts_are_lines_or_json(tmp_path: Path) -> None:
    text, lines = tmp_path / "a.txt", tmp_path / "a.jsonl"
    text.write_text('# c\n\n  one  \n"two"\r\n', newline="")
    assert read_prompts(text) == [SteerPrompt("one"), SteerPrompt('"two"')]
    text.write_text("\N{BYTE ORDER MARK}# c\none")
    assert read_prompts(text) == [SteerPrompt("one")]
    lines.write_text('\N{BYTE ORDER MARK}"one"\n\n{"prompt": "two", "system": "", "behaviour": "b"}\n')
    assert read_prompts(lines) == [SteerPrompt("one"), SteerPrompt("two", "", "b")]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2: .*not JSON"),
        ("3", "line 2: expected a text or an object"),
        ('{"text": "a"}', "line 2: expected a text"),
        ('{"prompt": "a", "behavior": "b"}', "unknown member 'behavior'"),
        ('{"prompt": "a", "system": 3}', "'system' is not a text"),
    ],
)
def test_lines_that_are_no_prompts_are_named(line: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'"fine"\n{line}\n')
    with pytest.raises(FileFormatError, match=told):
        read_prompts(path)


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("# only this\n")
    with pytest.raises(FileFormatError, match="at least one prompt"):
        read_prompts(tmp_path / "a.txt")


# the example that the package brings

QUESTION = re.compile(r"[A-Z][^.?!:]*\?")


def test_the_example_s_pairs_ask_the_same_and_differ_in_the_wish() -> None:
    long, short = (read_prompts(path) for path in example_files("verbosity"))
    assert len(long) == len(short) == 100
    assert len({prompt.text for prompt in (*long, *short)}) == 200
    asked = [
        [question for prompt in prompts for question in QUESTION.findall(prompt.text)] for prompts in (long, short)
    ]
    assert asked[0] == asked[1]
    assert len(set(asked[0])) == 100


def test_a_direction_is_built_from_the_example(steer: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    code, out, _ = steer("build", "--example", "verbosity", "--out", "v.f32")
    directions = np.fromfile(tmp_path / "v.f32", "<f4").reshape(LAYERS, WIDTH)
    facts = json.loads((tmp_path / "v.json").read_text())
    assert code == 0
    assert "from 100 pairs of prompts" in out
    assert np.linalg.norm(directions, axis=1) == pytest.approx(np.ones(LAYERS), abs=1e-5)
    assert (facts["pairs"], Path(facts["good_file"]).name, Path(facts["bad_file"]).name) == (
        100,
        "long.txt",
        "short.txt",
    )


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--good", "a"],
        ["--bad", "a"],
        ["--example", "verbosity", "--good", "a"],
        ["--good", "a", "--example", "verbosity"],
    ],
)
def test_either_an_example_or_both_sets_are_given(steer: Callable[..., tuple[int, str, str]], words: list[str]) -> None:
    code, _, err = steer("build", *words, "--out", "v.f32")
    assert code == 2
    assert "expected --good FILE and --bad FILE, or --example verbosity" in err


def test_the_part_shared_with_the_bad_prompts_can_be_kept(
    steer: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "good").write_text("\n".join(SUMS))
    (tmp_path / "bad").write_text("\n".join(OTHERS))
    assert steer("build", "--good", "good", "--bad", "bad", "--out", "without.f32")[0] == 0
    assert steer("build", "--good", "good", "--bad", "bad", "--out", "with.f32", "--no-orthogonalize")[0] == 0
    without, kept = (np.fromfile(tmp_path / f"{name}.f32", "<f4") for name in ("without", "with"))
    assert json.loads((tmp_path / "with.json").read_text())["orthogonalize_control_mean"] is False
    assert not np.allclose(without, kept, atol=1e-3)


def test_the_page_names_only_flags_that_exist(in_process: Call) -> None:
    flag = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    commands = ("steer build", "steer sweep", "run", "serve")
    known = {found for name in commands for found in flag.findall(in_process([*name.split(), "--help"])[1])}
    page = Path(__file__).parents[2] / "docs" / "steering.md"
    assert set(flag.findall(page.read_text(encoding="utf-8"))) <= known
