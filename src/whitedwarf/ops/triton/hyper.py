"""Hyper-connections around a sub-layer (fact sheet 2.2, 2.8): two launches from one sub-layer to the next.

`hyper_out_in` puts an output back and takes the next sub-layer's input out. The first launch cuts D into chunks; a
program puts back its chunk of all S streams and gives its part of the M products and of the sum of squares. The second
adds the parts up in order: one program of a row mixes the streams into the normed input, another does the twenty
iterations on the 4 x 4 numbers meanwhile, as sixteen scalars in registers. Twin: ops/twins/hyper.py, whose `mix_rows`
is inside here. Streams are put back in place.

All is f32. A row's result does not depend on other rows, but fewer than FEW_ROWS are cut into smaller chunks.

Tensor cores are not used: Triton moves the putting back into the layout of a dot's operand, where every warp repeats
it, and it spills. 24 products a number are few enough.

Flash, H200 at 4.3 TB/s. One row: the mix is 24 x 16384 f32 (1.5 MiB, 0.4 us) in 128 programs, the streams 64 KiB; each
launch about 2.5 us of latency. 32 rows: 512 programs, 4 us and 3 us. 2048 rows: streams 128 MiB read, written and read
again, parts 16 MiB written and read: 100 us of traffic; 0.8 G multiply-adds and their sums take about 80 us of it.
"""
# ruff: noqa: RUF005  Triton compiles sums of tuples, but no unpacking
# mypy: disable-error-code="assignment, misc"

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.ops.triton.interpretation import block
from whitedwarf.ops.triton.specimen import Specimen

FEW_ROWS = 16  # fewer are multiplied without tensor cores
ROWS = block(1, 32)  # of a program of the second launch
PART_WIDTH = 32  # of a row's part: M products, then the sum of squares


def hyper_in(
    streams: Tensor,
    mix: Tensor,
    base: Tensor,
    scale: Tensor,
    norm: Tensor,
    rms_epsilon: float,
    epsilon: float,
    iterations: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """(n, S, D), mix (M, S D) -> the sub-layer's normed input (n, D), post (n, S), combination (n, S, S)."""
    return _taken_in(streams, _parts(streams, mix), base, scale, norm, rms_epsilon, epsilon, iterations)


def hyper_out(streams: Tensor, output: Tensor, post: Tensor, combination: Tensor) -> Tensor:
    """(n, S, D), the sub-layer's (n, D), and what `hyper_in` gave -> `streams`, with the output put back."""
    _put_back(streams, output, post, combination, None)
    return streams


def hyper_out_in(
    streams: Tensor,
    output: Tensor,
    post: Tensor,
    combination: Tensor,
    mix: Tensor,
    base: Tensor,
    scale: Tensor,
    norm: Tensor,
    rms_epsilon: float,
    epsilon: float,
    iterations: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """`hyper_out` in place, then `hyper_in` of the next sub-layer, whose weights follow `combination`."""
    parts = _put_back(streams, output, post, combination, mix)
    return _taken_in(streams, parts, base, scale, norm, rms_epsilon, epsilon, iterations)


def hyper_head(
    streams: Tensor, mix: Tensor, base: Tensor, scale: Tensor, norm: Tensor, rms_epsilon: float, epsilon: float
) -> Tensor:
    """(n, S, D), mix (S, S D) -> (n, D): the streams mixed and normed for the head."""
    n, size, width = streams.shape
    parts = _parts(streams, mix)
    x = torch.empty((n, width), dtype=torch.float32, device=streams.device)
    constants = _constants(parts, size, width) | {"ITERATIONS": 0}
    _take_in[(triton.cdiv(n, ROWS), 1)](
        parts, streams, base, scale, norm, x, x, x, n, rms_epsilon, epsilon, **constants, num_warps=4
    )
    return x


def _parts(streams: Tensor, mix: Tensor) -> Tensor:
    return _first(streams, streams, streams, streams, mix, is_out=False)


def _put_back(streams: Tensor, output: Tensor, post: Tensor, combination: Tensor, mix: Tensor | None) -> Tensor:
    return _first(streams, output, post, combination, mix, is_out=True)


def _first(
    streams: Tensor, output: Tensor, post: Tensor, combination: Tensor, mix: Tensor | None, is_out: bool
) -> Tensor:
    """The first launch -> parts (n, chunks, PART_WIDTH) of the products with the mix, if there is one."""
    n, size, width = streams.shape
    chunk = block(32 if n < FEW_ROWS else 64, 256)
    chunks = triton.cdiv(width, chunk)
    mixes = 0 if mix is None else mix.shape[0]
    parts = torch.empty((n, chunks, PART_WIDTH if mixes else 0), dtype=torch.float32, device=streams.device)
    rows = 1 if n == 1 else 4
    repeats = 1 if n <= 64 else 8
    grid = (chunks, triton.cdiv(n, rows * repeats))
    inputs = streams, output, post, combination, streams if mix is None else mix, parts, n
    sizes = {"SIZE": size, "DIMS": width, "MIXES": mixes, "IS_OUT": is_out}
    _put_back_and_mix[grid](*inputs, **sizes, CHUNK=chunk, ROWS=rows, REPEATS=repeats, num_warps=4)
    return parts


def _taken_in(
    streams: Tensor,
    parts: Tensor,
    base: Tensor,
    scale: Tensor,
    norm: Tensor,
    rms_epsilon: float,
    epsilon: float,
    iterations: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The second launch."""
    n, size, width = streams.shape
    x = torch.empty((n, width), dtype=torch.float32, device=streams.device)
    post = torch.empty((n, size), dtype=torch.float32, device=streams.device)
    combination = torch.empty((n, size, size), dtype=torch.float32, device=streams.device)
    outputs = x, post, combination, n, rms_epsilon, epsilon
    constants = _constants(parts, size, width) | {"ITERATIONS": iterations}
    _take_in[(triton.cdiv(n, ROWS), 2)](parts, streams, base, scale, norm, *outputs, **constants, num_warps=4)
    return x, post, combination


def _constants(parts: Tensor, size: int, width: int) -> dict[str, int]:
    chunks = parts.shape[1]
    return {
        "SIZE": size,
        "DIMS": width,
        "CHUNKS": chunks,
        "CHUNKS_WIDTH": triton.next_power_of_2(chunks),
        "WIDTH": triton.next_power_of_2(width),
        "ROWS": ROWS,
    }


@triton.jit(do_not_specialize=["n"])
def _put_back_and_mix(
    streams,
    output,
    post,
    combination,
    mix,
    parts,
    n,
    SIZE: tl.constexpr,
    DIMS: tl.constexpr,
    MIXES: tl.constexpr,
    IS_OUT: tl.constexpr,
    CHUNK: tl.constexpr,
    ROWS: tl.constexpr,
    REPEATS: tl.constexpr,
):
    """A chunk of ROWS x REPEATS rows, whose weights stay in registers."""
    dims = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    column = tl.arange(0, 32)
    weights = ()
    if MIXES > 0:
        for stream in tl.static_range(SIZE):
            place = column[:, None] * (SIZE * DIMS) + stream * DIMS + dims[None, :]
            is_weight = (column[:, None] < MIXES) & (dims[None, :] < DIMS)
            weights = weights + (tl.load(mix + place, mask=is_weight, other=0.0).to(tl.float32),)
    for repeat in range(REPEATS):
        for i in tl.static_range(ROWS):
            row = ((tl.program_id(1) * REPEATS + repeat) * ROWS + i).to(tl.int64)
            end = tl.where(row < n, DIMS, 0)  # nothing of rows that are not there
            x = ()
            for stream in tl.static_range(SIZE):
                own = streams + (row * SIZE + stream) * DIMS
                x = x + (tl.load(own + dims, mask=dims < end, other=0.0),)
            if IS_OUT:
                x = _put_back_row(x, streams, output, post, combination, row, dims, end, SIZE, DIMS)
            if MIXES > 0:
                products = weights[0] * x[0][None, :]
                squares = x[0] * x[0]
                for stream in tl.static_range(1, SIZE):
                    products += weights[stream] * x[stream][None, :]
                    squares += x[stream] * x[stream]
                part = tl.where(column == MIXES, tl.sum(squares, axis=0), tl.sum(products, axis=1))
                own = parts + (row * tl.num_programs(0) + tl.program_id(0)) * 32
                tl.store(own + column, part, mask=column < end)


@triton.jit
def _put_back_row(x, streams, output, post, combination, row, dims, end, SIZE: tl.constexpr, DIMS: tl.constexpr):
    """The streams x of a row with the output put back, stored and returned."""
    y = tl.load(output + row * DIMS + dims, mask=dims < end, other=0.0)
    is_row = end > 0
    new = ()
    for k in tl.static_range(SIZE):
        value = tl.load(post + row * SIZE + k, mask=is_row, other=0.0) * y
        for j in tl.static_range(SIZE):
            value += tl.load(combination + (row * SIZE + j) * SIZE + k, mask=is_row, other=0.0) * x[j]
        tl.store(streams + (row * SIZE + k) * DIMS + dims, value, mask=dims < end)
        new = new + (value,)
    return new


@triton.jit(do_not_specialize=["n"])
def _take_in(
    parts,
    streams,
    base,
    scale,
    norm,
    x,
    post,
    combination,
    n,
    rms_epsilon,
    epsilon,
    SIZE: tl.constexpr,
    DIMS: tl.constexpr,
    CHUNKS: tl.constexpr,
    CHUNKS_WIDTH: tl.constexpr,
    WIDTH: tl.constexpr,
    ITERATIONS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """ROWS rows: program 0 mixes the streams, program 1 balances the combination. No iterations: the head's mix."""
    row, column = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, 32)[None, :]
    is_row = (row < n)[:, None]
    chunk = tl.arange(0, CHUNKS_WIDTH)[None, :, None]
    place = (row[:, None, None] * CHUNKS + chunk) * 32 + column[:, None, :]
    mixes = tl.sum(tl.load(parts + place, mask=is_row[:, :, None] & (chunk < CHUNKS), other=0.0), axis=1)
    num_mixes: tl.constexpr = SIZE if ITERATIONS == 0 else 2 * SIZE + SIZE * SIZE
    mean_square = tl.sum(tl.where(column == num_mixes, mixes, 0.0), axis=1)[:, None] / (SIZE * DIMS)
    kind = tl.minimum(column // SIZE, 0 if ITERATIONS == 0 else 2)
    scales = tl.load(scale + kind, mask=column < num_mixes, other=0.0)
    shifts = tl.load(base + column, mask=column < num_mixes, other=0.0)
    logits = mixes * (1 / tl.sqrt(mean_square + rms_epsilon)) * scales + shifts
    gates = 1 / (1 + tl.exp(tl.minimum(-logits, 80.0)))
    if tl.program_id(1) == 0:
        dims = tl.arange(0, WIDTH)[None, :]
        is_own = is_row & (dims < DIMS)
        mixed = tl.zeros((ROWS, WIDTH), tl.float32)
        for stream in tl.static_range(SIZE):
            weight = tl.sum(tl.where(column == stream, gates, 0.0), axis=1)[:, None] + epsilon
            own = streams + (row[:, None] * SIZE + stream) * DIMS
            mixed += weight * tl.load(own + dims, mask=is_own, other=0.0)
        inverse = 1 / tl.sqrt(tl.sum(mixed * mixed, axis=1) / DIMS + rms_epsilon)
        result = mixed * inverse[:, None] * tl.load(norm + dims, mask=dims < DIMS, other=0.0)
        tl.store(x + row[:, None] * DIMS + dims, result, mask=is_own)
    else:
        is_post = is_row & (column >= SIZE) & (column < 2 * SIZE)
        tl.store(post + row[:, None] * SIZE + column - SIZE, 2 * gates, mask=is_post)
        balanced = _balanced(logits, column, epsilon, SIZE, ITERATIONS)
        for i in tl.static_range(SIZE * SIZE):
            tl.store(combination + row * SIZE * SIZE + i, balanced[i], mask=row < n)


@triton.jit
def _balanced(logits, column, epsilon, SIZE: tl.constexpr, ITERATIONS: tl.constexpr):
    """The numbers behind the first 2 SIZE of `logits` as a (source, destination) matrix, nearly doubly stochastic.

    Every number of the matrix is a tensor (ROWS,) of its own.
    """
    c = ()
    for j in tl.static_range(SIZE):
        row = ()
        for k in tl.static_range(SIZE):
            row = row + (tl.sum(tl.where(column == 2 * SIZE + j * SIZE + k, logits, 0.0), axis=1),)
        top = row[0]
        for k in tl.static_range(1, SIZE):
            top = tl.maximum(top, row[k])
        exps = ()
        for k in tl.static_range(SIZE):
            exps = exps + (tl.exp(row[k] - top),)
        whole = exps[0]
        for k in tl.static_range(1, SIZE):
            whole += exps[k]
        for k in tl.static_range(SIZE):
            c = c + (exps[k] / whole + epsilon,)
    c = _column_sums_divided(c, epsilon, SIZE)
    for _ in range(ITERATIONS - 1):
        c = _column_sums_divided(_row_sums_divided(c, epsilon, SIZE), epsilon, SIZE)
    return c


@triton.jit
def _row_sums_divided(c, epsilon, SIZE: tl.constexpr):
    new = ()
    for j in tl.static_range(SIZE):
        whole = c[j * SIZE]
        for k in tl.static_range(1, SIZE):
            whole += c[j * SIZE + k]
        inverse = 1 / (whole + epsilon)
        for k in tl.static_range(SIZE):
            new = new + (c[j * SIZE + k] * inverse,)
    return new


@triton.jit
def _column_sums_divided(c, epsilon, SIZE: tl.constexpr):
    inverses = ()
    for k in tl.static_range(SIZE):
        whole = c[k]
        for j in tl.static_range(1, SIZE):
            whole += c[j * SIZE + k]
        inverses = inverses + (1 / (whole + epsilon),)
    new = ()
    for j in tl.static_range(SIZE):
        for k in tl.static_range(SIZE):
            new = new + (c[j * SIZE + k] * inverses[k],)
    return new


_FIRST = dict.fromkeys(("streams", "output", "post", "combination", "mix", "parts"), "*fp32") | {"n": "i32"}
_SECOND = dict.fromkeys(("parts", "streams", "base", "scale", "norm", "x", "post", "combination"), "*fp32")
_SECOND |= {"n": "i32", "rms_epsilon": "fp32", "epsilon": "fp32"}
_SIZES = {"SIZE": 4, "DIMS": 4096}
_BOTH = _SIZES | {"MIXES": 24, "IS_OUT": True}
_ONE, _FEW = {"CHUNK": 32, "ROWS": 1, "REPEATS": 1}, {"CHUNK": 32, "ROWS": 4, "REPEATS": 1}
_MANY = {"CHUNK": 64, "ROWS": 4, "REPEATS": 8}
_HEAD = _SIZES | {"CHUNKS": 128, "CHUNKS_WIDTH": 128, "WIDTH": 4096, "ITERATIONS": 0, "ROWS": 1}
SPECIMENS = (
    Specimen("hyper put back and mix n1", _put_back_and_mix, _FIRST, _BOTH | _ONE),
    Specimen("hyper put back and mix n15", _put_back_and_mix, _FIRST, _BOTH | _FEW),
    Specimen("hyper put back and mix many", _put_back_and_mix, _FIRST, _BOTH | _MANY),
    Specimen("hyper put back many", _put_back_and_mix, _FIRST, _BOTH | _MANY | {"MIXES": 0}),
    Specimen("hyper take in few", _take_in, _SECOND, _HEAD | {"ITERATIONS": 20}),
    Specimen("hyper take in many", _take_in, _SECOND, _HEAD | {"ITERATIONS": 20, "CHUNKS": 64, "CHUNKS_WIDTH": 64}),
    Specimen("hyper head few", _take_in, _SECOND, _HEAD),
)
