"""`whitedwarf gguf synth`: a model of a real shape with random weights, to measure speed and memory with."""

from typing import Annotated, Literal

from cyclopts import Parameter

from whitedwarf.cli.progress import ByteProgress
from whitedwarf.cli.termination import tidy_termination
from whitedwarf.config import POSITIVE
from whitedwarf.gguf.synth import synthesise


def command(
    out: str,
    /,
    *,
    shape: Literal["flash", "pro", "tiny"] = "tiny",
    layers: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    experts: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    quant: str = "q2",
    seed: int = 0,
    split: Annotated[int, Parameter(validator=POSITIVE)] = 1,
    dialect: Literal["ds4", "llama.cpp"] = "ds4",
) -> None:
    """Write a model with random weights. Its words mean nothing; its shape and its formats are real.

    Parameters
    ----------
    out
        The file to write.
    shape
        Whose dimensions: Flash, PRO, or one small enough for tests.
    layers
        Only the first so many layers. Default: all.
    experts
        Routed experts per layer. Default: all.
    quant
        Type of the routed experts: q2, q4, q8, mxfp4 or f16; two joined by - change over in the last layers.
    seed
        Same seed, same file.
    split
        Number of files.
    dialect
        Whose choice of types for the other tensors.
    """
    progress = ByteProgress("writing")
    try:
        with tidy_termination():
            synthesise(out, shape, layers, experts, quant, seed, split, dialect, progress.show)
    finally:
        progress.finish()
