"""The bundled model as people get it, and the source checkpoint against transformers."""

import json

import numpy as np
import pytest

from nano.evaluate import Score, score_row
from oracle.engines import logits_of, model_at
from oracle.fixtures import ROOT
from oracle.nano_eval import GOLDEN, evaluate
from whitedwarf.gguf.convert import ConvertOptions, convert
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.loading import load_mtp

NANO = ROOT / "src" / "whitedwarf" / "data" / "nano.gguf"
DRAFT = NANO.with_name("nano-mtp.gguf")
SOURCE = ROOT.parent / "shared" / "nano" / "official"  # what the bundled model was first made from
REFERENCE = ROOT / "tests" / "golden" / "nano" / "reference.json"


def references(path=REFERENCE):
    return json.loads(path.read_text(encoding="utf-8"))["prompts"] if path.exists() else []


def top_logits(model, prompt):
    logits = logits_of(model, np.array(prompt["token_ids"], np.int32))[-1]
    ids = [entry["id"] for entry in prompt["top10"]]
    return logits, ids, np.array([entry["logit"] for entry in prompt["top10"]])


def test_the_bundled_files_are_small_enough_to_travel():
    assert NANO.stat().st_size + DRAFT.stat().st_size < 25_000_000


@pytest.mark.slow
def test_bundled_nano_is_as_accurate_as_the_reference_implementation():
    passed, reference, rows = evaluate(model_at(NANO, kv_cache="packed", quality=False))["all"]
    assert rows == 204
    assert reference == 183
    assert passed / rows >= reference / rows - 0.02


@pytest.mark.slow
def test_half_of_the_bundled_draft_block_s_first_guesses_are_nano_s_next_tokens():
    model = model_at(NANO, kv_cache="packed", quality=False)
    draft = load_mtp(open_gguf(DRAFT), model)
    total = Score()
    with np.load(GOLDEN) as golden:
        for name in golden["names"][::12]:  # some of every family
            prompt, answer = (golden[f"{name}/{part}"].astype(np.int32) for part in ("prompt", "answer"))
            total.add(score_row(model, draft, prompt, answer))
    assert total.rows == 17
    assert total.drafted > 200
    assert total.accepted / total.drafted >= 0.5


@pytest.mark.parametrize("prompt", references(), ids=lambda prompt: f"{prompt['n_tokens']} tokens")
def test_bundled_nano_ranks_the_reference_s_next_token_first(prompt):
    logits, ids, _ = top_logits(model_at(NANO, kv_cache="packed", quality=False), prompt)
    assert int(logits.argmax()) == ids[0]


@pytest.mark.shared
@pytest.mark.skipif(not SOURCE.exists(), reason="needs the workshop's ../shared/nano/official")
@pytest.mark.parametrize(
    "prompt", references(SOURCE.with_name("reference.json")), ids=lambda prompt: f"{prompt['n_tokens']} tokens"
)
def test_source_checkpoint_through_our_converter_gives_transformers_logits(prompt, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "nano-f32.gguf"
    if not path.exists():
        convert(SOURCE, path, ConvertOptions(outtype="f32"))
    logits, ids, expected = top_logits(model_at(path), prompt)
    assert np.abs(logits[ids] - expected).max() <= 1e-3
