"""Compile every Triton kernel ahead of time, for a GPU that need not be here.

    python scripts/compile_kernels.py [--target sm_90] [--only WORD] [--json] [--show ptx|sass|ttgir]

Prints registers, spills and shared memory of each specimen (ops/triton/specimen.py). Exit code 1 if one cannot be
compiled, or if a hot one spills; 2 if the arguments are wrong. Needs Triton, but no device and no torch device.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

PROCESSES = 2
TARGETS = {  # backend, architecture, threads of a warp
    "sm_80": ("cuda", 80, 32),
    "sm_90": ("cuda", 90, 32),
    "sm_120": ("cuda", 120, 32),
    "gfx942": ("hip", "gfx942", 64),
    "gfx1151": ("hip", "gfx1151", 32),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one specimen."""

    name: str
    seconds: float
    registers: int = 0
    spills: int = 0  # bytes of local memory a thread
    shared_bytes: int = 0
    is_hot: bool = True
    error: str = ""

    @property
    def is_good(self) -> bool:
        return not self.error and not (self.is_hot and self.spills)


def main() -> int:
    arguments = _parser().parse_args()
    os.environ.pop("TRITON_INTERPRET", None)  # before triton is imported: interpreted functions cannot be compiled
    names = [name for name in specimens() if arguments.only in name]
    if not names:
        print(f"no specimen has {arguments.only!r} in its name", file=sys.stderr)
        return 2
    if arguments.show:
        return _show(names, arguments.target, arguments.show)
    with multiprocessing.get_context("spawn").Pool(min(PROCESSES, len(names))) as pool:
        jobs = [(name, arguments.target) for name in names]
        outcomes = []
        for outcome in pool.imap(_compile_job, jobs):
            outcomes.append(outcome)
            if not arguments.json:
                _print_line(outcome)
    failures = [outcome.name for outcome in outcomes if not outcome.is_good]
    if arguments.json:
        print(json.dumps({"target": arguments.target, "specimens": [asdict(o) for o in outcomes]}))
    if failures:
        print(f"{len(failures)} of {len(outcomes)} failed: {', '.join(failures)}", file=sys.stderr)
    return 1 if failures else 0


def specimens() -> dict:
    """All specimens of all kernel files, by name."""
    package = importlib.import_module("whitedwarf.ops.triton")
    found = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        for specimen in getattr(importlib.import_module(f"whitedwarf.ops.triton.{module}"), "SPECIMENS", ()):
            if specimen.name in found:
                raise ValueError(f"two specimens are called {specimen.name!r}")
            found[specimen.name] = specimen
    return found


def compile_specimen(name: str, target: str):
    """Compile one specimen for one of TARGETS."""
    import triton
    from triton.backends.compiler import GPUTarget

    specimen = specimens()[name]
    source = triton.compiler.ASTSource(
        fn=specimen.kernel,
        signature=specimen.full_signature(),
        constexprs=dict(specimen.constants),
        attrs=specimen.attributes(),
    )
    options = {"num_warps": specimen.num_warps, "num_stages": specimen.num_stages, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget(*TARGETS[target]), options=options)


def _compile_job(job: tuple[str, str]) -> Outcome:
    name, target = job
    started = time.monotonic()
    is_hot = specimens()[name].is_hot
    try:
        compiled = compile_specimen(name, target)
        registers, spills = _usage(compiled)
    except Exception:
        return Outcome(name, time.monotonic() - started, is_hot=is_hot, error=traceback.format_exc(limit=-4))
    return Outcome(name, time.monotonic() - started, registers, spills, compiled.metadata.shared, is_hot)


def _usage(compiled) -> tuple[int, int]:
    """(registers, spilled bytes) of a thread."""
    if "cubin" not in compiled.asm:
        text = compiled.asm["amdgcn"]
        numbers = [re.search(rf"\.{key}:\s*(\d+)", text) for key in ("vgpr_count", "vgpr_spill_count")]
        registers, spilled = (int(number.group(1)) if number else 0 for number in numbers)
        return registers, 4 * spilled
    text = _cuobjdump(compiled, "-res-usage")
    registers, stack = re.search(r"REG:(\d+)", text), re.search(r"STACK:(\d+)", text)
    return int(registers.group(1)), int(stack.group(1))


def _cuobjdump(compiled, *options: str) -> str:
    import triton

    program = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        return subprocess.run([program, *options, file.name], capture_output=True, text=True, check=True).stdout


def _show(names: list[str], target: str, language: str) -> int:
    for name in names:
        compiled = compile_specimen(name, target)
        print(f"// {name}\n{_cuobjdump(compiled, '-sass') if language == 'sass' else compiled.asm[language]}")
    return 0


def _print_line(outcome: Outcome) -> None:
    verdict = "ok" if outcome.is_good else "FAILED"
    print(
        f"{verdict:6} {outcome.name:48} {outcome.registers:4} registers {outcome.spills:5} spilled "
        f"{outcome.shared_bytes:7} shared {outcome.seconds:6.1f} s",
        flush=True,
    )
    if outcome.error:
        print(outcome.error, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=list(TARGETS), default="sm_90")
    parser.add_argument("--only", default="", metavar="WORD", help="specimens with this in their names")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--show", choices=["ttir", "ttgir", "ptx", "sass"], help="print the code instead")
    return parser


if __name__ == "__main__":
    sys.exit(main())
