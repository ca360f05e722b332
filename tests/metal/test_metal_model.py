"""The whole model on Metal kernels, run on the CPU: the twins' logits."""

import numpy as np
import pytest

from metal.cases import OnDevice, mx, needs_compiler
from metal.shim import Shim
from oracle.engines import oracle_model, pieces, run
from oracle.fixtures import oracle_arrays, oracle_file
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.loading import load_model
from whitedwarf.ops.metal import choice, launch
from whitedwarf.ops.mlx_ops import MlxOps

pytestmark = [pytest.mark.mlx, needs_compiler]


@pytest.mark.parametrize("made", [Shim(), *([OnDevice(launch.made)] if mx.metal.is_available() else [])])
def test_a_flash_quant_mix_gives_the_twins_logits(made, monkeypatch):
    monkeypatch.setattr(launch, "made", made)
    ids = oracle_arrays("tinyQ/ref.npz")["text_ids"][:7]
    twins = oracle_model("tinyQ/tiny-iq2.gguf", "mlx")
    model = load_model(open_gguf(oracle_file("tinyQ/tiny-iq2.gguf")), MlxOps(choice.METAL), "f32").transformer
    chunks = [5, 2]
    ours, expected = (run(one, one.new_state(), pieces(ids, chunks)) for one in (model, twins))
    assert np.abs(ours - expected).max() <= 1e-4
    kinds = {"products_few", "experts_few_up", "experts_few_down", "attention_part", "attention_join"}
    kinds |= {"hyper_in", "hyper_out", "hyper_head", "rows_made", "pool", "route"}
    assert {kind for kind in kinds if any(name.startswith(kind) for name in made.launched)} == kinds
