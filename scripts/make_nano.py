"""Make the bundled model: a release-layout folder -> src/whitedwarf/data/nano.gguf.

    python scripts/make_nano.py [--source FOLDER] [--target FILE] [--experts Q8_0|Q4_K]

Promises the same bytes for the same source. Matrices are Q8_0, routed experts what --experts says; everything small
that steers the rest (norms, hyper-connections, routers, position tables) stays F32. It does not judge the model: the
choice between Q8_0 and Q4_K is made with `eval.jsonl` and the engine.
"""

import argparse
import sys
from pathlib import Path

from whitedwarf.errors import WhitedwarfError
from whitedwarf.gguf.convert import ConvertOptions, convert
from whitedwarf.gguf.types import GgmlType

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT.parent / "shared" / "nano" / "official"
TARGET = ROOT / "src" / "whitedwarf" / "data" / "nano.gguf"
LARGEST_BYTES = 25_000_000  # it travels in the wheel

KEPT_EXACT = ("ffn_gate_inp.weight", "indexer.proj.weight", "_ape.weight")


def nano_type(name: str, shape: tuple[int, ...], experts: GgmlType) -> GgmlType | None:
    """The type of one tensor; None leaves vectors and the token table to the converter."""
    if len(shape) == 1 or name.endswith("tid2eid.weight"):
        return None
    if "hc_" in name or name.endswith(KEPT_EXACT):
        return GgmlType.F32
    return experts if name.endswith("_exps.weight") else GgmlType.Q8_0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, default=SOURCE)
    parser.add_argument("--target", type=Path, default=TARGET)
    parser.add_argument("--experts", choices=["Q8_0", "Q4_K"], default="Q8_0")
    arguments = parser.parse_args()
    experts = GgmlType[arguments.experts]
    options = ConvertOptions(
        choose_type=lambda name, shape: nano_type(name, shape, experts), name="whitedwarf nano", license="MIT"
    )
    try:
        report = convert(arguments.source, arguments.target, options)
    except WhitedwarfError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{report.paths[0]}: {report.num_tensors} tensors, {report.size_bytes:,} bytes")
    if report.size_bytes > LARGEST_BYTES:
        print(f"expected at most {LARGEST_BYTES:,} bytes: it travels in the wheel", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
