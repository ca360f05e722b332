"""doctor and the gguf commands."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from fakes.checkpoints import random_checkpoint
from fakes.rewritten import rewritten
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.ops.select import BACKENDS

InProcess = Callable[[Sequence[str]], tuple[int, str, str]]


def test_doctor_tells_what_would_be_used(in_process: InProcess) -> None:
    code, out, err = in_process(["doctor"])
    assert (code, err) == (0, "")
    labels = [line.split()[0] for line in out.splitlines()]
    machine = ["whitedwarf", "cpu", "cores", "memory", "limit"]
    assert labels == [*machine, *["backend"] * len(BACKENDS), "model", "plan", "streaming", "context"]
    assert "nano" in out
    assert ": used; " in out


def test_doctor_as_json(in_process: InProcess) -> None:
    code, out, _ = in_process(["doctor", "--json"])
    document = json.loads(out)
    assert code == 0
    assert document["backend"] in ("cpu", "reference")
    assert document["machine"]["usable_threads"] >= 1
    assert document["memory"]["total_bytes"] >= document["memory"]["usable_bytes"] > 0
    model = document["model"]
    assert model["architecture"] == "deepseek4"
    assert (model["context_length"], model["fitting_context"]) == (32768, 32768)
    assert (model["chunk_tokens"], model["buffers_bytes"] > 0) == (512, True)
    assert 0 < model["context_bytes"] < document["memory"]["usable_bytes"]


def test_doctor_without_a_model_says_so_and_fails(in_process: InProcess) -> None:
    code, out, _ = in_process(["doctor", "-m", "/nowhere.gguf"])
    assert code == 1
    assert "model       none: model /nowhere.gguf" in out


def test_inspect_shows_text_or_json(in_process: InProcess, nano_path: Path) -> None:
    code, out, _ = in_process(["gguf", "inspect", str(nano_path)])
    assert (code, "deepseek4" in out) == (0, True)
    code, out, _ = in_process(["gguf", "inspect", str(nano_path), "--json"])
    assert (code, json.loads(out)["architecture"]) == (0, "deepseek4")


def test_verify_of_a_sound_model(in_process: InProcess, babbler: Path) -> None:
    code, out, _ = in_process(["gguf", "verify", str(babbler)])
    assert (code, out.splitlines()[-1]) == (0, f"{babbler}: sound")
    code, out, _ = in_process(["gguf", "verify", str(babbler), "--json"])
    assert (code, json.loads(out)["is_sound"]) == (0, True)


def test_verify_finds_a_number_that_is_none(in_process: InProcess, babbler: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(babbler.read_bytes())
    with open_gguf(babbler) as gguf:
        info = gguf.tensors["output_norm.weight"]
    with broken.open("r+b") as file:
        file.seek(info.offset_bytes)
        file.write(b"\x00\x00\xc0\x7f")  # NaN as f32
    code, out, _ = in_process(["gguf", "verify", str(broken)])
    assert code == 1
    assert out.startswith("error: output_norm.weight: ")
    assert out.endswith("NOT sound\n")


def test_verify_of_a_truncated_file_is_one_line(in_process: InProcess, babbler: Path, tmp_path: Path) -> None:
    (tmp_path / "half.gguf").write_bytes(babbler.read_bytes()[:100_000])
    code, out, err = in_process(["gguf", "verify", str(tmp_path / "half.gguf")])
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_synth_writes_a_model_that_runs(in_process: InProcess, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    code, out, _ = in_process(["gguf", "synth", str(path), "--layers", "1", "--quant", "q4", "--seed", "3"])
    assert (code, out) == (0, "")
    code, out, _ = in_process(["run", "-m", str(path), "--nothink", "-n", "2", "-p", "x", "--seed", "1"])
    assert code == 0
    assert out


def test_a_vocabulary_of_another_size_than_the_embedding_is_refused(
    in_process: InProcess, babbler: Path, tmp_path: Path
) -> None:
    def with_one_token_more(values: TypedMetadata) -> TypedMetadata:
        (kind, tokens), (types_kind, types) = (values[f"tokenizer.ggml.{key}"] for key in ("tokens", "token_type"))
        assert isinstance(tokens, list)
        more = {"tokens": (kind, [*tokens, "surplus"]), "token_type": (types_kind, np.append(types, np.int32(1)))}
        return {**values, **{f"tokenizer.ggml.{key}": value for key, value in more.items()}}

    path = str(rewritten(babbler, tmp_path / "surplus.gguf", metadata=with_one_token_more))
    for words in (["run", "-m", path, "-p", "x"], ["gguf", "verify", path]):
        code, _, err = in_process(words)
        assert code == 1
        assert "surplus.gguf: tokenizer.ggml.tokens has 513 tokens, expected 512" in err


@pytest.mark.parametrize("words", [["--shape", "huge"], ["--quant", "q3"], ["--layers", "0"]])
def test_synth_refuses_what_it_cannot_make(words: list[str], in_process: InProcess, tmp_path: Path) -> None:
    code, _, err = in_process(["gguf", "synth", str(tmp_path / "x.gguf"), *words])
    assert (code, err.count("\n")) == (2, 1)
    assert list(tmp_path.iterdir()) == []


def test_convert_refuses_a_folder_that_is_no_checkpoint(in_process: InProcess, tmp_path: Path) -> None:
    code, _, err = in_process(["gguf", "convert", str(tmp_path), str(tmp_path / "out.gguf")])
    assert code in (1, 2)
    assert "config.json" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("flags", "num_mtp"), [((), 32), (("--no-mtp",), 0)])
def test_convert_may_leave_the_mtp_block_out(
    in_process: InProcess, tmp_path: Path, flags: tuple[str, ...], num_mtp: int
) -> None:
    folder = random_checkpoint(with_mtp=True).write(tmp_path / "release")
    code, _, err = in_process(["gguf", "convert", str(folder), str(tmp_path / "out.gguf"), *flags])
    assert code == 0
    assert ("tensors of the MTP block left out, as asked" in err) is bool(flags)
    with open_gguf(tmp_path / "out.gguf") as gguf:
        assert sum(name.startswith("mtp.") for name in gguf.tensors) == num_mtp


def test_convert_makes_a_model_that_verifies(in_process: InProcess, tmp_path: Path) -> None:
    checkpoint = Path(__file__).parents[1] / "golden" / "oracle" / "tinyA" / "src"
    out = tmp_path / "tiny.gguf"
    code, text, _ = in_process(["gguf", "convert", str(checkpoint), str(out), "--json", "--name", "tiny A"])
    report = json.loads(text)
    assert (code, report["paths"], report["size_bytes"]) == (0, [str(out)], out.stat().st_size)
    assert in_process(["gguf", "verify", str(out)])[0] == 0
    assert json.loads(in_process(["gguf", "inspect", "--json", str(out)])[1])["name"] == "tiny A"
