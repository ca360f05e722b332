"""Make the bundled model: a release-layout folder -> src/whitedwarf/data/nano.gguf, and nano-mtp.gguf beside it.

    python scripts/make_nano.py --source FOLDER [--target FILE] [--experts Q4_K|Q8_0]

FOLDER is what `python -m nano.export` writes. Promises the same bytes for the same source. Matrices are Q8_0, routed
experts what --experts says; everything small that steers the rest (norms, hyper-connections, routers, position tables)
stays F32. An MTP block goes into a file of its own, as llama.cpp's reader refuses tensors it does not know. It does not
judge the model: `python -m nano.evaluate` does.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from whitedwarf.errors import WhitedwarfError
from whitedwarf.gguf.convert import ConvertOptions, convert
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.rewriting import own_metadata, pieces_of, plan_rewriting, rewrite
from whitedwarf.gguf.types import GgmlType

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "whitedwarf" / "data" / "nano.gguf"
LARGEST_BYTES = 25_000_000  # both files together: they travel in the wheel
MTP = "mtp."

KEPT_EXACT = ("ffn_gate_inp.weight", "indexer.proj.weight", "_ape.weight")


def nano_type(name: str, shape: tuple[int, ...], experts: GgmlType) -> GgmlType | None:
    """The type of one tensor; None leaves vectors and the token table to the converter."""
    if len(shape) == 1 or name.endswith("tid2eid.weight"):
        return None
    if "hc_" in name or name.endswith(KEPT_EXACT):
        return GgmlType.F32
    return experts if name.endswith("_exps.weight") else GgmlType.Q8_0


def make(source: Path, target: Path, options: ConvertOptions) -> list[Path]:
    """Convert, then part the MTP block (if there is one) from the rest; the files that came to be."""
    draft = target.with_name(f"{target.stem}-mtp.gguf")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        whole = convert(source, Path(folder) / target.name, options).paths[0]
        with open_gguf(whole) as model:
            pieces = pieces_of(model)
            own = [piece for piece in pieces if not piece.name.startswith(MTP)]
            parted = [piece for piece in pieces if piece.name.startswith(MTP)]
            paths = list(rewrite(plan_rewriting(target, own_metadata(model), own)))
            if parted:
                kept = {key: value for key, value in own_metadata(model).items() if key.startswith("general.")}
                paths += rewrite(plan_rewriting(draft, kept, parted))
    return paths


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, default=TARGET)
    parser.add_argument("--experts", choices=["Q8_0", "Q4_K"], default="Q8_0")
    arguments = parser.parse_args()
    experts = GgmlType[arguments.experts]
    options = ConvertOptions(
        choose_type=lambda name, shape: nano_type(name, shape, experts), name="whitedwarf nano", license="MIT"
    )
    try:
        paths = make(arguments.source, arguments.target, options)
    except WhitedwarfError as error:
        print(error, file=sys.stderr)
        return 1
    sizes = [path.stat().st_size for path in paths]
    for path, size in zip(paths, sizes, strict=True):
        print(f"{path}: {size:,} bytes")
    if sum(sizes) > LARGEST_BYTES:
        print(f"expected at most {LARGEST_BYTES:,} bytes: they travel in the wheel", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
