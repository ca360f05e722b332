"""What files say of the model that made them, so that two models are never mixed up."""

import hashlib

from whitedwarf.gguf.reader import GgufFile
from whitedwarf.kvstore.payload import Layout
from whitedwarf.model.config import KvCache
from whitedwarf.model.deepseek import DeepSeek

ROW_KINDS: dict[KvCache, int] = {"packed": 1, "packed-f16": 2, "f16": 3, "f32": 4}  # in files: never renumbered
PRO_LAYERS = 61
SAMPLE_BYTES = 64  # of each tensor: all of 80 GB would take minutes
ROUTED_EXPERTS = "ffn_gate_exps.weight"


def layout_of(model: DeepSeek) -> Layout:
    """What payloads must agree with."""
    hp, config = model.config.hp, model.config
    return Layout(
        hp.compress_ratios,
        hp.head_dim,
        hp.index_head_dim,
        hp.vocab_size,
        hp.sliding_window,
        config.context_length,
        row_kind=ROW_KINDS[config.kv_cache],
        row_bytes=config.kv_format.row_bytes,
        key_bytes=config.key_format.row_bytes,
    )


def model_id(model: DeepSeek) -> int:
    """0 Flash, 1 PRO."""
    return int(len(model.config.hp.compress_ratios) == PRO_LAYERS)


def arithmetic_of(model: DeepSeek, *, quality: bool) -> str:
    """All that changes what weights come to; a file that was moved to another folder is still told apart."""
    steering = "" if model.steering is None else f" steered {model.steering.digest}"
    return f"{model.arithmetic} {quality}{steering}"


def quant_bits(gguf: GgufFile) -> int:
    """2 or 4, as the format knows them: of the routed experts' weights."""
    experts = [info for name, info in gguf.tensors.items() if name.endswith(ROUTED_EXPERTS)]
    return 2 if experts and 8 * experts[0].size_bytes < 3 * experts[0].num_elements else 4


def model_mark(gguf: GgufFile, arithmetic: str) -> int:
    """16 bits, never 0, of the tensors' names, types, shapes and first bytes, and of how they are calculated with."""
    digest = hashlib.sha256(arithmetic.encode())
    for name, info in sorted(gguf.tensors.items()):
        digest.update(f"\n{name} {info.type.name} {info.shape}\n".encode())
        digest.update(gguf.data(name)[:SAMPLE_BYTES].tobytes())
    return int.from_bytes(digest.digest()[:2], "little") or 1
