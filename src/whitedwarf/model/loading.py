"""From an opened file to a model: read the numbers, check every tensor, bind them to a backend. Nothing is copied."""

from dataclasses import dataclass

from whitedwarf.gguf.census import check_census
from whitedwarf.gguf.hparams import from_metadata
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.model.config import KvCache, ModelConfig
from whitedwarf.model.mtp import MtpBlock, has_mtp
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import Ops
from whitedwarf.weights.store import load_tensors


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The main model, and its MTP block when the file has one."""

    transformer: Transformer
    mtp: MtpBlock | None


def load_model(gguf: GgufFile, ops: Ops, kv_cache: KvCache = "packed") -> LoadedModel:
    """Check the whole file against the architecture, then load it.

    Raises FileFormatError or NotDeepSeekV4Error naming the key or tensor, before any work is done.
    """
    hp = from_metadata(gguf.metadata, gguf.tensors)
    tensors = load_tensors(gguf)
    check_census(hp, tensors, str(gguf.paths[0]))
    transformer = Transformer.load(tensors, ModelConfig(hp, kv_cache), ops)
    mtp = MtpBlock.load(tensors, transformer) if has_mtp(tensors) else None
    return LoadedModel(transformer, mtp)
