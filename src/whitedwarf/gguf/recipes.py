"""Which type each tensor of a quantised model gets: families of tensors, ready recipes, and the order of the rules.

Promises pure functions of names and shapes (model.md 4.3, 4.5 and 5.4). The order: a prefix of the name that was given
a type; routed experts by their family; tables and vectors as they are; then embedding, output, shared experts,
projections of attention, the rest of attention, other matrices; what no rule names gets the base type. Knows no files.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from whitedwarf.errors import UsageError
from whitedwarf.gguf.codecs import ENCODABLE_TYPES
from whitedwarf.gguf.types import GgmlType

Family = Literal[
    "routed-w1", "routed-w2", "routed-w3", "embedding", "output", "shared", "attention-proj", "attention", "dense"
]
RecipeName = Literal["q2", "q2-q4", "q4", "mxfp4"]

_ROUTED: Mapping[str, Family] = {
    "ffn_gate_exps.weight": "routed-w1",
    "ffn_down_exps.weight": "routed-w2",
    "ffn_up_exps.weight": "routed-w3",
}
ROUTED_FAMILIES: tuple[Family, ...] = ("routed-w1", "routed-w2", "routed-w3")
_PROJECTIONS = ("attn_kv", "attn_q_a", "attn_q_b", "attn_output_a", "attn_output_b")
_SHARED = ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")
_LAYER = re.compile(r"(blk|mtp)\.([0-9]+)\.(.+)")
_DRAFT_EXPERTS = GgmlType.Q4_K  # of an MTP block, as in the published files: small, and its guesses are worth bits
_FEWEST_DRAFT_BITS = 4
_DRAFT_PROJECTIONS = ("e_proj", "h_proj", "nextn.eh_proj")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Types of a whole model: those of model.md 4.3 beside these of the routed experts."""

    experts: Mapping[Family, GgmlType]
    rich_experts: Mapping[Family, GgmlType] | None = None  # of chosen layers


def _all_experts(type_: GgmlType) -> Mapping[Family, GgmlType]:
    return dict.fromkeys(ROUTED_FAMILIES, type_)


_Q2: Mapping[Family, GgmlType] = {
    "routed-w1": GgmlType.IQ2_XXS,
    "routed-w2": GgmlType.Q2_K,
    "routed-w3": GgmlType.IQ2_XXS,
}
RECIPES: Mapping[RecipeName, Recipe] = {
    "q2": Recipe(_Q2),
    "q2-q4": Recipe(_Q2, _all_experts(GgmlType.Q4_K)),
    "q4": Recipe(_all_experts(GgmlType.Q4_K)),
    "mxfp4": Recipe(_all_experts(GgmlType.MXFP4)),
}


@dataclass(frozen=True, slots=True)
class TypeRules:
    """What was asked for. `prefixes` are tried in order of their length, the longest first."""

    recipe: Recipe | None = None
    rich_layers: frozenset[int] = frozenset()
    families: Mapping[Family, GgmlType] = field(default_factory=dict)
    prefixes: tuple[tuple[str, GgmlType], ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """A type, and whether it was asked for by the tensor's name: then it is not changed for another that fits."""

    type: GgmlType
    is_asked: bool = False


def family_of(name: str, shape: tuple[int, ...]) -> Family | None:
    """The family of a tensor by its canonical name; None for vectors and tables, which no family option touches."""
    _, rest = _layer(name)
    if rest in _ROUTED:
        return _ROUTED[rest]
    stem = rest.removesuffix(".weight")
    if len(shape) < 2 or stem == "ffn_gate_tid2eid":
        return None
    if name == "token_embd.weight":
        return "embedding"
    if name.startswith("output."):
        return "output"
    if stem in _SHARED:
        return "shared"
    if stem in _PROJECTIONS:
        return "attention-proj"
    return "attention" if stem.startswith(("attn_", "indexer")) else "dense"


def choose(name: str, shape: tuple[int, ...], base: GgmlType, rules: TypeRules) -> Choice:
    """The type of one tensor; `base` is what it is in the template or the source."""
    for prefix, type_ in sorted(rules.prefixes, key=lambda rule: -len(rule[0])):
        if name.startswith(prefix):
            return Choice(type_, is_asked=True)
    family = family_of(name, shape)
    if family is not None and family in rules.families and base is not GgmlType.I32:
        return Choice(rules.families[family])
    if rules.recipe is None or base is GgmlType.I32:
        return Choice(base)
    return Choice(_of_recipe(name, family, rules.recipe, rules.rich_layers))


def unused_prefixes(names: list[str], rules: TypeRules) -> list[str]:
    """Prefixes that name no tensor: most likely a slip."""
    return [prefix for prefix, _ in rules.prefixes if not any(name.startswith(prefix) for name in names)]


def fitting(choice: Choice, name: str, columns: int) -> GgmlType:
    """The chosen type; one of a recipe or family that cannot hold such rows gives way. UsageError for an asked one."""
    if columns % choice.type.block_size == 0:
        return choice.type
    if choice.is_asked:
        raise UsageError(
            f"{name} has rows of {columns}, but {choice.type.name} needs multiples of {choice.type.block_size}; "
            "choose another type for it"
        )
    return GgmlType.Q8_0 if columns % GgmlType.Q8_0.block_size == 0 else GgmlType.F16


def parse_type(flag: str, text: str) -> GgmlType:
    """A type by name, in any case. Raises UsageError."""
    name = text.strip().upper()
    found = GgmlType.__members__.get(name)
    if found is None or found not in ENCODABLE_TYPES:
        known = ", ".join(sorted(type_.name.lower() for type_ in ENCODABLE_TYPES))
        raise UsageError(f"{flag}: got {text!r}; expected one of {known}.")
    return found


def parse_prefix(text: str) -> tuple[str, GgmlType]:
    """PREFIX=TYPE. Raises UsageError."""
    prefix, separator, type_ = text.rpartition("=")
    if not separator or not prefix:
        raise UsageError(f"--tensor-type: got {text!r}; expected PREFIX=TYPE, e.g. blk.3.ffn_down_exps=q4_k.")
    return prefix, parse_type("--tensor-type", type_)


def _of_recipe(name: str, family: Family | None, recipe: Recipe, rich_layers: frozenset[int]) -> GgmlType:
    layer, rest = _layer(name)
    if family in ROUTED_FAMILIES:
        if name.startswith("mtp."):
            return _DRAFT_EXPERTS if _bits(recipe.experts[family]) < _FEWEST_DRAFT_BITS else recipe.experts[family]
        is_rich = recipe.rich_experts is not None and layer in rich_layers
        return (recipe.rich_experts if is_rich and recipe.rich_experts else recipe.experts)[family]
    if family is None:
        return GgmlType.F32
    if family in ("output", "shared", "attention-proj") or rest.removesuffix(".weight") in _DRAFT_PROJECTIONS:
        return GgmlType.Q8_0
    return GgmlType.F16


def _bits(type_: GgmlType) -> float:
    return 8 * type_.block_bytes / type_.block_size


def _layer(name: str) -> tuple[int | None, str]:
    """The layer's number and the name inside it; None and the whole name for tensors of no layer."""
    found = _LAYER.fullmatch(name)
    return (None, name) if found is None else (int(found[2]), found[3])
