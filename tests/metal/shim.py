"""Runs Metal kernels on the CPU: MLX writes the source of a launch, g++ compiles it against include/metal_shim.h.

Where there is clang, it looks whether pointers into device, constant and threadgroup memory are mixed up, which to g++
are all the same (address_spaces/metal_stdlib).

MLX gives the very text that it would hand to Metal when a kernel is called while a function is being exported, also
where there is no Metal. What is left to do here is to make C++ of it. Compiled kernels are kept in .test-cache/.
"""

import contextlib
import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from whitedwarf.ops.metal.launch import Source

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = Path(__file__).with_name("include")
ADDRESS_SPACES = Path(__file__).with_name("address_spaces")
CACHE = ROOT / ".test-cache" / "metal"
WARNINGS = ("-Wall", "-Wno-unused-variable", "-Werror")
SANITIZERS = ("-fsanitize=alignment,bounds,shift", "-fno-sanitize-recover=all")
AS_METAL = (
    "-std=c++14",
    "-fsyntax-only",
    "-target",
    "aarch64-linux-gnu",
    "-nostdinc",
    "-Wall",
    "-Wno-unused",
    "-Werror",
)
FLAGS = ("-std=c++17", "-O1", "-fPIC", *WARNINGS, *SANITIZERS)
GUARD = 64  # bytes behind every output that must stay as they were
CANARY = 0xA5

ATTRIBUTE = re.compile(r"\[\[[a-z_]+(?:\([^)]*\))?\]\]")
PARAMETER = re.compile(r"^  (.+?)\*? (\w+) \[\[\w+", re.MULTILINE)  # of the kernel: type and name
SHARED = re.compile(r"^(\s*)threadgroup (\w+) (\w+)\[([^\]]+)\];", re.MULTILINE)
NOT_ON_A_STACK = r"\1static threadgroup \2 \3[\4];"
PLACES = {
    "thread_index_in_simdgroup": "metal::lane()",
    "simdgroup_index_in_threadgroup": "metal::running->current / 32",
    "thread_index_in_threadgroup": "metal::running->current",
    "threadgroup_position_in_grid": "metal::running->position",
    "thread_position_in_threadgroup": "metal::own_place()",
    "thread_position_in_grid": "metal::grid_place()",
    "threadgroups_per_grid": "metal::groups()",
}


@dataclass
class Shim:
    """Takes the place of ops/metal/launch.py's `made`."""

    backwards: bool = False
    launched: list[str] = field(default_factory=list)  # names of sources
    _texts: dict[tuple[Any, ...], str] = field(default_factory=dict)  # by what MLX writes them from

    def __call__(self, source: Source) -> Callable[..., list[mx.array]]:
        kernel = mx.fast.metal_kernel(
            name=source.name,
            input_names=list(source.inputs),
            output_names=list(source.outputs),
            source=source.body,
            header=source.header,
        )

        def call(inputs, template, grid, threadgroup, output_shapes, output_dtypes) -> list[mx.array]:
            assert all(whole % part == 0 for whole, part in zip(grid, threadgroup, strict=True)), (grid, threadgroup)
            assert max(grid) < 2**31, "a launch has at most 2^31 threads in a direction"
            assert np.prod(threadgroup) <= 1024, "a threadgroup has at most 1024 threads"
            self.launched.append(source.name)
            kinds = tuple((str(x.dtype), x.ndim == 0, x.size < 8) for x in inputs)
            key = source, kinds, tuple(template), tuple(map(str, output_dtypes))
            if key not in self._texts:
                named = {"output_shapes": output_shapes, "output_dtypes": output_dtypes, "template": template}
                self._texts[key] = _generated(kernel, inputs, grid=grid, threadgroup=threadgroup, **named)
            text = self._texts[key]
            return _run(text, source, inputs, grid, threadgroup, output_shapes, output_dtypes, self.backwards)

        return call


def _generated(kernel: Callable[..., Any], inputs: Sequence[mx.array], **how: Any) -> str:
    """What MLX would compile."""

    def launch(*arrays: mx.array) -> list[mx.array]:
        return kernel(inputs=list(arrays), verbose=True, **how)

    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "printed"
        _with_output_in(printed, lambda: mx.export_function(f"{folder}/launch.mlxfn", launch, *inputs))
        return printed.read_text(encoding="utf-8").split("```")[1]


def _with_output_in(path: Path, run: Callable[[], Any]) -> None:
    """What C++ prints, too."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 1)
            run()
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _run(text: str, source: Source, inputs, grid, group, shapes, dtypes, backwards: bool) -> list[mx.array]:
    library = _library(text)
    arrays = {name: np.ascontiguousarray(np.array(x)) for name, x in zip(source.inputs, inputs, strict=True)}
    sizes = {f"{name}_shape": np.array(x.shape, np.int32) for name, x in zip(source.inputs, inputs, strict=True)}
    made = [np.dtype(str(dtype).removeprefix("mlx.core.")) for dtype in dtypes]
    outputs = {
        name: np.full(int(np.prod(shape)) * dtype.itemsize + GUARD, CANARY, np.uint8)
        for name, shape, dtype in zip(source.outputs, shapes, made, strict=True)
    }
    everything = arrays | sizes | outputs
    buffers = [everything[name] for name in _parameters(text) if name not in PLACES]
    pointers = (ctypes.c_void_p * len(buffers))(*(buffer.ctypes.data for buffer in buffers))
    library.run(pointers, (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*group), ctypes.c_int(backwards))
    for name, output in outputs.items():
        assert (output[-GUARD:] == CANARY).all(), f"{source.name} writes behind its output {name}"
    values = zip(outputs.values(), shapes, made, strict=True)
    return [mx.array(output[:-GUARD].view(dtype).reshape(shape)) for output, shape, dtype in values]


@cache
def _library(text: str) -> ctypes.CDLL:
    if has_clang():
        _check_address_spaces(text)
    return ctypes.CDLL(str(_compiled(_as_cpp(text))))


def has_clang() -> bool:
    return shutil.which("clang++") is not None


def _check_address_spaces(text: str) -> None:
    kernel = _kernel(text)
    text = re.sub(r"\b(float4|uint4|ulong2|uint2)\(", r"metal::converted<\1>(", _without_attributes(text))
    code = f"{SHARED.sub(NOT_ON_A_STACK, text)}\nauto* checked = &{kernel};\n"
    code = f"#include <metal_stdlib>\n{code}"
    with tempfile.NamedTemporaryFile(suffix=".cpp") as file:
        file.write(code.encode())
        file.flush()
        _compile(["clang++", *AS_METAL, f"-I{ADDRESS_SPACES}", file.name])


def _parameters(text: str) -> list[str]:
    return [name for _, name in PARAMETER.findall(text)]


def _as_cpp(text: str) -> str:
    """The kernel as a function of C++, and `run`, which calls it for every thread of a grid."""
    buffers = [parameter for parameter in _parameters(text) if parameter not in PLACES]
    arguments = [
        PLACES.get(parameter) or f"({re.sub(r'const |device|constant', '', type)}*)buffers[{buffers.index(parameter)}]"
        for type, parameter in PARAMETER.findall(text)
    ]
    kernel = _kernel(text)
    text = SHARED.sub(r"\1static metal::Shared<\2, (\4)> \3;", _without_attributes(text))
    return f"""#include "metal_shim.h"
{text}
extern "C" void run(void** buffers, const metal::uint* grid, const metal::uint* size, int backwards) {{
  metal::run_grid({{grid[0], grid[1], grid[2]}}, {{size[0], size[1], size[2]}}, backwards, [&] {{
    {kernel}({", ".join(arguments)});
  }});
}}
"""


def _kernel(text: str) -> str:
    """Its name, with the constants it is made for."""
    instance = re.search(r"decltype\((.+?)\) ", text)
    return instance[1] if instance else re.search(r"void (custom_kernel_\w+)\(", text)[1]


def _without_attributes(text: str) -> str:
    return ATTRIBUTE.sub("", re.sub(r"^template \[\[host_name.*$", "", text, flags=re.MULTILINE))


def _compiled(code: str) -> Path:
    include = _include()
    target = include / f"{hashlib.sha256(code.encode()).hexdigest()[:24]}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=include) as folder:
            (cpp := Path(folder) / "kernel.cpp").write_text(code, encoding="utf-8")
            built = Path(folder) / "kernel.so"
            _compile(["g++", *FLAGS, f"-I{include}", str(cpp), "-shared", "-o", str(built)])
            built.replace(target)
    return target


@cache
def _include() -> Path:
    """A folder for this version of the shim, with its header compiled: half of the time that a kernel takes."""
    headers = sorted(INCLUDE.iterdir())
    content = b"".join(header.read_bytes() for header in headers) + " ".join(FLAGS).encode()
    folder = CACHE / hashlib.sha256(content).hexdigest()[:24]
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=CACHE))
        for header in headers:
            shutil.copy(header, made)
        _compile(["g++", *FLAGS, "-x", "c++-header", f"{made}/metal_shim.h", "-o", f"{made}/metal_shim.h.gch"])
        with contextlib.suppress(OSError):  # another process was faster
            made.rename(folder)
    return folder


def _compile(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
