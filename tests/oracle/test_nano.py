"""The bundled model as people get it, and the source checkpoint against transformers."""

import json

import numpy as np
import pytest

from oracle.engines import logits_of, model_at
from oracle.fixtures import ROOT
from oracle.nano_eval import evaluate
from whitedwarf.gguf.convert import ConvertOptions, convert

NANO = ROOT / "src" / "whitedwarf" / "data" / "nano.gguf"
SOURCE = ROOT.parent / "shared" / "nano" / "official"
REFERENCE = ROOT / "tests" / "golden" / "nano" / "reference.json"


def references():
    return json.loads(REFERENCE.read_text(encoding="utf-8"))["prompts"]


def top_logits(model, prompt):
    logits = logits_of(model, np.array(prompt["token_ids"], np.int32))[-1]
    ids = [entry["id"] for entry in prompt["top10"]]
    return logits, ids, np.array([entry["logit"] for entry in prompt["top10"]])


def test_the_bundled_file_is_small_enough_to_travel():
    assert NANO.stat().st_size < 25_000_000


@pytest.mark.slow
def test_bundled_nano_is_as_accurate_as_the_reference_implementation():
    passed, reference, rows = evaluate(model_at(NANO, kv_cache="packed", quality=False))["all"]
    assert rows == 204
    assert reference == 151
    assert passed / rows >= reference / rows - 0.02


@pytest.mark.parametrize("prompt", references(), ids=lambda prompt: f"{prompt['n_tokens']} tokens")
def test_bundled_nano_ranks_the_reference_s_next_token_first(prompt):
    logits, ids, _ = top_logits(model_at(NANO, kv_cache="packed", quality=False), prompt)
    assert int(logits.argmax()) == ids[0]


@pytest.mark.shared
@pytest.mark.skipif(not SOURCE.exists(), reason="needs the workshop's ../shared/nano/official")
@pytest.mark.parametrize("prompt", references(), ids=lambda prompt: f"{prompt['n_tokens']} tokens")
def test_source_checkpoint_through_our_converter_gives_transformers_logits(prompt, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "nano-f32.gguf"
    if not path.exists():
        convert(SOURCE, path, ConvertOptions(outtype="f32"))
    logits, ids, expected = top_logits(model_at(path), prompt)
    assert np.abs(logits[ids] - expected).max() <= 1e-3
