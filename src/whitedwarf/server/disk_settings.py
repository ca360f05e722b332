"""What the store of prefixes is told of the options and of the model, so that it never mixes up two models."""

from pathlib import Path

from whitedwarf.config import ServeSettings
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.kvstore.model_facts import arithmetic_of, layout_of, model_id, model_mark, quant_bits
from whitedwarf.kvstore.payload import PayloadKind
from whitedwarf.kvstore.policy import Limits
from whitedwarf.kvstore.settings import StoreSettings
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.model.steering import Steering

PAYLOAD_KINDS = {"packed": PayloadKind.PACKED, "ds4": PayloadKind.DS4}


def disk_limits(serve: ServeSettings) -> Limits:
    """Raises UsageError when the `--kv-cache-*` options contradict one another."""
    return Limits(
        min_tokens=serve.kv_cache_min_tokens,
        cold_max_tokens=serve.kv_cache_cold_max_tokens,
        continued_interval_tokens=serve.kv_cache_continued_interval_tokens,
        boundary_trim_tokens=serve.kv_cache_boundary_trim_tokens,
        boundary_align_tokens=serve.kv_cache_boundary_align_tokens,
    )


def disk_settings(serve: ServeSettings, model: DeepSeek, gguf: GgufFile, *, quality: bool) -> StoreSettings | None:
    """None without `--kv-disk-dir`."""
    if serve.kv_disk_dir is None:
        return None
    return StoreSettings(
        directory=_folder(serve.kv_disk_dir, model.steering),
        layout=layout_of(model),
        quant_bits=quant_bits(gguf),
        model_id=model_id(model),
        model_mark=model_mark(gguf, arithmetic_of(model, quality=quality)),
        payload_kind=PAYLOAD_KINDS[serve.kv_disk_format],
        same_quant_only=serve.kv_cache_reject_different_quant,
        budget_bytes=serve.kv_disk_space_mb << 20,
        limits=disk_limits(serve),
    )


def _folder(base: Path, steering: Steering | None) -> Path:
    """States under a steering have a folder of their own: files are named by their text alone, and ds4, which may read
    the same folder, knows of no steering."""
    return base if steering is None else base / f"steered-{steering.digest}"
