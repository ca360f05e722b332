"""The tensors of published models as their headers describe them: sizes without files."""

import math
from dataclasses import dataclass

from whitedwarf.gguf.census import expected_tensors, mtp_tensors
from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.gguf.recipes import RECIPES, RecipeName, TypeRules, choose
from whitedwarf.gguf.types import GgmlType


@dataclass(frozen=True, slots=True)
class Sized:
    """One tensor of a header."""

    size_bytes: int


def header_sizes(
    hp: Hyperparameters, recipe: RecipeName, *, rich_layers: frozenset[int] = frozenset(), has_mtp: bool = False
) -> dict[str, Sized]:
    """Every tensor of a model with the types of a recipe."""
    rules = TypeRules(RECIPES[recipe], rich_layers)
    sizes = {}
    for name, want in (expected_tensors(hp) | (mtp_tensors(hp) if has_mtp else {})).items():
        base = GgmlType.I32 if want.kind == "indices" else GgmlType.F32
        type_ = choose(name, want.shape, base, rules).type
        sizes[name] = Sized(math.prod(want.shape[:-1]) * type_.row_bytes(want.shape[-1]))
    return sizes
