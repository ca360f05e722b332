"""The flags that say which type each tensor of a quantised model gets."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from whitedwarf.cli.gguf_splice import parse_layers
from whitedwarf.errors import UsageError
from whitedwarf.gguf.recipes import RECIPES, ROUTED_FAMILIES, Family, TypeRules, parse_prefix, parse_type
from whitedwarf.gguf.types import GgmlType


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class TypeFlags:
    """Types of tensors."""

    recipe: Literal["q2", "q2-q4", "q4", "mxfp4"] | None = None
    """Types of all tensors, as in the published files: q2 (experts IQ2_XXS, down Q2_K), q4 (experts Q4_K), q2-q4 (q2,
    but the layers of --q4-layers as in q4), mxfp4 (experts as the checkpoint has them). Options below come first."""

    q4_layers: str | None = None
    """With q2-q4: whose experts are Q4_K, e.g. 37-42,0-2."""

    experts: Annotated[str | None, Parameter(name=["--experts", "--routed"])] = None
    """Type of all routed experts: f32, f16, bf16, q8_0, q4_k, q2_k, iq2_xxs or mxfp4, as for all of these."""

    routed_w1: Annotated[str | None, Parameter(name=["--routed-w1", "--routed-gate"])] = None
    """Type of their gates."""

    routed_w2: Annotated[str | None, Parameter(name=["--routed-w2", "--routed-down"])] = None
    """Type of their down projections."""

    routed_w3: Annotated[str | None, Parameter(name=["--routed-w3", "--routed-up"])] = None
    """Type of their up projections."""

    attention_proj: str | None = None
    """Type of attention's projections: kv, q_a, q_b, output_a and output_b."""

    attention: str | None = None
    """Type of the other matrices of attention: compressors and indexer."""

    shared: str | None = None
    """Type of the shared experts."""

    embedding: str | None = None
    """Type of the token embedding."""

    output: str | None = None
    """Type of the output head."""

    dense: str | None = None
    """Type of all other matrices: routers and hyper-connections."""

    tensor_type: Annotated[tuple[str, ...], Parameter(negative=())] = ()
    """PREFIX=TYPE for tensors whose names begin so; the longest prefix wins. May be given several times."""

    def rules(self) -> TypeRules:
        """What the flags say. Raises UsageError."""
        if (self.recipe == "q2-q4") != (self.q4_layers is not None):
            raise UsageError("--recipe q2-q4 and --q4-layers belong together, e.g. --recipe q2-q4 --q4-layers 37-42")
        layers = frozenset() if self.q4_layers is None else frozenset(parse_layers(self.q4_layers, "--q4-layers"))
        recipe = None if self.recipe is None else RECIPES[self.recipe]
        prefixes = tuple(parse_prefix(text) for text in self.tensor_type)
        return TypeRules(recipe, layers, self._families(), prefixes)

    def _families(self) -> dict[Family, GgmlType]:
        texts: dict[Family, tuple[str, str | None]] = dict.fromkeys(ROUTED_FAMILIES, ("--experts", self.experts))
        own: dict[Family, str | None] = {
            "routed-w1": self.routed_w1,
            "routed-w2": self.routed_w2,
            "routed-w3": self.routed_w3,
            "attention-proj": self.attention_proj,
            "attention": self.attention,
            "shared": self.shared,
            "embedding": self.embedding,
            "output": self.output,
            "dense": self.dense,
        }
        given: dict[Family, tuple[str, str | None]] = {
            family: (f"--{family}", text) for family, text in own.items() if text is not None
        }
        return {family: parse_type(flag, text) for family, (flag, text) in (texts | given).items() if text is not None}


DEFAULT_TYPES = TypeFlags()
