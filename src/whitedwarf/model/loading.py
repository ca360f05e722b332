"""From an opened file to a model: read the numbers, check every tensor, bind them to a backend. Nothing is copied."""

from dataclasses import dataclass

from whitedwarf.gguf.census import check_mtp_census
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.model.config import KvCache, ModelConfig
from whitedwarf.model.mtp import MtpBlock
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import Ops
from whitedwarf.weights.checked import check_expert_tables, check_model
from whitedwarf.weights.nextn import as_mtp, has_nextn
from whitedwarf.weights.store import load_tensors
from whitedwarf.weights.tensors import TensorMap


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The main model, and its MTP block when the file has one."""

    transformer: Transformer
    mtp: MtpBlock | None


def load_model(gguf: GgufFile, ops: Ops, kv_cache: KvCache = "packed", held: range | None = None) -> LoadedModel:
    """Check the whole file against the architecture, then load it, or the layers `held` of it.

    Raises FileFormatError or NotDeepSeekV4Error naming the key or tensor, before any work is done.
    """
    checked = check_model(gguf, held)
    check_expert_tables(checked, str(gguf.paths[0]), held)
    transformer = Transformer.load(checked.tensors, ModelConfig(checked.hp, kv_cache), ops, held)
    mtp = MtpBlock.load(checked.tensors, transformer) if checked.has_mtp else None
    return LoadedModel(transformer, mtp)


def load_mtp(gguf: GgufFile, main: Transformer) -> MtpBlock:
    """The block of an MTP support file of either dialect (model.md 4.5, 4.6), checked against its main model."""
    tensors: TensorMap = load_tensors(gguf)
    if has_nextn(tensors):
        tensors = as_mtp(tensors)
    check_mtp_census(main.config.hp, tensors, str(gguf.paths[0]))
    return MtpBlock.load(tensors, main)
