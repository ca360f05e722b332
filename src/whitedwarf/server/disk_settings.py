"""What the store of prefixes is told of the options and of the model, so that it never mixes up two models."""

import hashlib
from pathlib import Path

from whitedwarf.config import ServeSettings
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.kvstore.payload import Layout, PayloadKind
from whitedwarf.kvstore.policy import Limits
from whitedwarf.kvstore.settings import StoreSettings
from whitedwarf.model.config import KvCache
from whitedwarf.model.steering import Steering
from whitedwarf.model.transformer import Transformer

ROW_KINDS: dict[KvCache, int] = {"packed": 1, "packed-f16": 2, "f16": 3, "f32": 4}  # in files: never renumbered
PAYLOAD_KINDS = {"packed": PayloadKind.PACKED, "ds4": PayloadKind.DS4}
PRO_LAYERS = 61
SAMPLE_BYTES = 64  # of each tensor: all of 80 GB would take minutes
ROUTED_EXPERTS = "ffn_gate_exps.weight"


def disk_limits(serve: ServeSettings) -> Limits:
    """Raises UsageError when the `--kv-cache-*` options contradict one another."""
    return Limits(
        min_tokens=serve.kv_cache_min_tokens,
        cold_max_tokens=serve.kv_cache_cold_max_tokens,
        continued_interval_tokens=serve.kv_cache_continued_interval_tokens,
        boundary_trim_tokens=serve.kv_cache_boundary_trim_tokens,
        boundary_align_tokens=serve.kv_cache_boundary_align_tokens,
    )


def disk_settings(serve: ServeSettings, model: Transformer, gguf: GgufFile, *, quality: bool) -> StoreSettings | None:
    """None without `--kv-disk-dir`."""
    if serve.kv_disk_dir is None:
        return None
    hp, config = model.config.hp, model.config
    return StoreSettings(
        directory=_folder(serve.kv_disk_dir, model.steering),
        layout=Layout(
            hp.compress_ratios,
            hp.head_dim,
            hp.index_head_dim,
            hp.vocab_size,
            hp.sliding_window,
            config.context_length,
            row_kind=ROW_KINDS[config.kv_cache],
            row_bytes=config.kv_format.row_bytes,
            key_bytes=config.key_format.row_bytes,
        ),
        quant_bits=quant_bits(gguf),
        model_id=int(len(hp.compress_ratios) == PRO_LAYERS),
        model_mark=model_mark(gguf, _arithmetic(model, quality=quality)),
        payload_kind=PAYLOAD_KINDS[serve.kv_disk_format],
        same_quant_only=serve.kv_cache_reject_different_quant,
        budget_bytes=serve.kv_disk_space_mb << 20,
        limits=disk_limits(serve),
    )


def _folder(base: Path, steering: Steering | None) -> Path:
    """States under a steering have a folder of their own: files are named by their text alone, and ds4, which may read
    the same folder, knows of no steering."""
    return base if steering is None else base / f"steered-{steering.digest}"


def _arithmetic(model: Transformer, *, quality: bool) -> str:
    """All that changes what weights come to; a file that was moved to another folder is still told apart."""
    steering = "" if model.steering is None else f" steered {model.steering.digest}"
    return f"{model.ops.name} {quality}{steering}"


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
