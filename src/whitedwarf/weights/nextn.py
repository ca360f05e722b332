"""llama.cpp's spelling of an MTP block (`blk.N.nextn.*`, model.md 4.6) in the names of the original (4.5).

Promises views on the same bytes, but for the two projections: llama.cpp keeps them side by side in one matrix, so they
are copied apart. Checks nothing; `gguf.census` judges what comes out.
"""

import re
from collections.abc import Iterator

import numpy as np

from whitedwarf.errors import FileFormatError
from whitedwarf.weights.tensors import Tensor, TensorMap

_JOINED = re.compile(r"blk\.(\d+)\.nextn\.eh_proj\.weight")
_ENDS = {"nextn.enorm": "enorm", "nextn.hnorm": "hnorm", "nextn.shared_head_norm": "norm"}
_UNUSED = ("nextn.embed_tokens", "nextn.shared_head_head")  # copies of the main model's


def has_nextn(tensors: TensorMap) -> bool:
    """Whether an MTP block is there in llama.cpp's spelling."""
    return any(map(_JOINED.fullmatch, tensors))


def as_mtp(tensors: TensorMap) -> TensorMap:
    """The block of a file that holds nothing else, as `mtp.0.*`; its `output_hc_*` are the block's own."""
    joined = next(name for name in tensors if _JOINED.fullmatch(name))
    prefix = joined.removesuffix("nextn.eh_proj.weight")
    block = {f"mtp.0.{_mtp_name(name, prefix)}": tensor for name, tensor in _own(tensors, prefix)}
    del block["mtp.0.nextn.eh_proj.weight"]
    embedding, hidden = _halves(tensors[joined])
    return block | {"mtp.0.e_proj.weight": embedding, "mtp.0.h_proj.weight": hidden}


def _own(tensors: TensorMap, prefix: str) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in tensors.items():
        is_copy = name.startswith(tuple(prefix + unused for unused in _UNUSED))
        if name.startswith("output_hc_") or (name.startswith(prefix) and not is_copy):
            yield name, tensor


def _mtp_name(name: str, prefix: str) -> str:
    if name.startswith("output_hc_"):
        return name.replace("output_hc_", "hc_head_")
    rest = name.removeprefix(prefix)
    stem = rest.removesuffix(".weight")
    return f"{_ENDS[stem]}.weight" if stem in _ENDS else rest


def _halves(joined: Tensor) -> tuple[Tensor, Tensor]:
    """The columns for the embedding, and those for the hidden state."""
    rows, columns = joined.shape if len(joined.shape) == 2 else (0, 0)
    half, rest = divmod(columns, 2)
    if not rows or rest or half % joined.type.block_size:
        raise FileFormatError(
            f"{joined.name} has shape {list(joined.shape)}, expected two {joined.type.name} matrices side by side"
        )
    data = joined.data.reshape(rows, 2, -1)
    parts = (np.ascontiguousarray(data[:, side]).reshape(-1) for side in range(2))
    embedding, hidden = (Tensor(joined.name, joined.type, (rows, half), part) for part in parts)
    return embedding, hidden
