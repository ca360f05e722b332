"""Plans for the real models, by name and shape alone: no weights needed."""

import math
from collections import Counter
from typing import Any, cast

import pytest

from fakes.checkpoints import listed_release, tiny_checkpoint
from whitedwarf.gguf.convert_plan import ConversionPlan, Outtype, file_type, plan_conversion
from whitedwarf.gguf.hparams import from_release_config
from whitedwarf.gguf.safetensors_source import SafetensorsSource

FLASH = {
    "hidden_size": 4096,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "num_attention_heads": 64,
    "num_experts_per_tok": 6,
    "num_hidden_layers": 43,
    "num_nextn_predict_layers": 1,
    "head_dim": 512,
    "q_lora_rank": 1024,
    "qk_rope_head_dim": 64,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
    "sliding_window": 128,
    "swiglu_limit": 10.0,
    "vocab_size": 129280,
}
PRO = FLASH | {
    "hidden_size": 7168,
    "moe_intermediate_size": 3072,
    "n_routed_experts": 384,
    "num_attention_heads": 128,
    "num_hidden_layers": 61,
    "q_lora_rank": 1536,
    "o_groups": 16,
    "index_topk": 1024,
    "routed_scaling_factor": 2.5,
    "compress_ratios": [128, 128, *[4, 128] * 29, 4, 0],
}


def planned(size: dict[str, Any], outtype: Outtype = "native", **options: Any) -> ConversionPlan:
    config = tiny_checkpoint().config | size
    source = cast(SafetensorsSource, listed_release(config))
    return plan_conversion(source, from_release_config(config), outtype, **options)


def size_bytes(plan: ConversionPlan) -> int:
    return sum(math.prod(tensor.shape[:-1]) * tensor.type.row_bytes(tensor.shape[-1]) for tensor in plan.tensors)


def test_our_list_of_flash_has_as_many_mtp_tensors_as_the_published_index() -> None:
    listed = listed_release(tiny_checkpoint().config | FLASH).tensors
    assert sum(name.startswith("mtp.") for name in listed) == 1575


@pytest.mark.slow
def test_our_list_of_pro_has_as_many_tensors_as_the_published_index() -> None:
    assert len(listed_release(tiny_checkpoint().config | PRO).tensors) == 145_116


def test_flash_becomes_the_known_number_of_tensors_in_the_converters_types() -> None:
    plan = planned(FLASH, include_mtp=False)
    assert len(plan.tensors) == 1328
    types = Counter(tensor.type.name for tensor in plan.tensors)
    assert types == {"F32": 641, "Q8_0": 365, "BF16": 190, "MXFP4": 129, "I32": 3}
    assert 150e9 < size_bytes(plan) < 160e9
    assert file_type(plan.tensors) == 38


def test_flash_with_its_mtp_block_has_32_tensors_more() -> None:
    assert len(planned(FLASH).tensors) == 1328 + 32


@pytest.mark.slow
def test_pro_becomes_the_computed_number_of_tensors() -> None:
    assert len(planned(PRO, include_mtp=False).tensors) == 1894
