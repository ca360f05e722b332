"""A kernel with the constants it really runs with, so that it can be compiled where there is no device.

Every kernel file offers `SPECIMENS`; scripts/compile_kernels.py compiles them all. Interpretation finds wrong
arithmetic, this finds what the compiler refuses, and registers that spill.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Type = str | tuple["Type", ...]  # "*fp32", "*u8", "i32", ..., or those of a tuple


@dataclass(frozen=True, slots=True)
class Specimen:
    """One compilation of one kernel."""

    name: str  # unique, and says what for: "linear few Q8_0 n1"
    kernel: Any  # the @triton.jit function
    signature: Mapping[str, Type]  # of each argument that is no constant
    constants: Mapping[str, object]  # value of each tl.constexpr argument
    num_warps: int = 4
    num_stages: int = 2
    unaligned: frozenset[str] = field(default=frozenset())  # pointers that may lie at any address; others at 16 bytes
    divisible: frozenset[str] = field(default=frozenset())  # integers that are multiples of 16 in this use
    is_hot: bool = True  # must not spill registers

    def attributes(self) -> dict[tuple[int, ...], list[list[object]]]:
        """What a launch would find out about its arguments, as the compiler wants it."""
        found: dict[tuple[int, ...], list[list[object]]] = {}
        for place, name in enumerate(self.kernel.arg_names):
            if name in self.signature and name not in self.unaligned:
                for path in _aligned((place,), self.signature[name], name in self.divisible):
                    found[path] = [["tt.divisibility", 16]]
        return found

    def full_signature(self) -> dict[str, Type]:
        """All arguments in order, constants as "constexpr". ValueError names what is missing or too much."""
        names = list(self.kernel.arg_names)
        given: dict[str, Type] = {**self.signature, **dict.fromkeys(self.constants, "constexpr")}
        if missing := [name for name in names if name not in given]:
            raise ValueError(f"specimen {self.name!r} says nothing of {', '.join(missing)}")
        if unknown := [name for name in given if name not in names]:
            raise ValueError(f"specimen {self.name!r} has {', '.join(unknown)}, which its kernel has not")
        return {name: given[name] for name in names}


def _aligned(path: tuple[int, ...], type: Type, is_divisible: bool) -> Iterator[tuple[int, ...]]:
    """Where in an argument there are pointers, or integers that are multiples of 16."""
    if isinstance(type, str):
        if type.startswith("*") or is_divisible:
            yield path
    else:
        for i, inner in enumerate(type):
            yield from _aligned((*path, i), inner, is_divisible)
