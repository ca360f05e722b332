"""A sequence that has read many tokens, without its having read any: its stores are filled with random valid rows."""

from collections.abc import Callable
from typing import Any

from gpu_checks.setting import Draw
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.rows import SlidingRows
from whitedwarf.model.state import CompressorState, LayerState, StateSnapshot
from whitedwarf.ops.base import RowFormat
from whitedwarf.ops.twins.rows import encode_rows

PIECE_ROWS = 4096


def deep_snapshot(config: ModelConfig, depth: int, memory: Callable[[int], Any], draw: Draw) -> StateSnapshot:
    """To be restored into any number of states of this model; they share the compressed rows until they write."""
    ratios = config.hp.compress_ratios
    layers = [_layer(config, ratio, depth, memory(index), draw) for index, ratio in enumerate(ratios)]
    return StateSnapshot(depth, ratios, tuple(layers), 0)


def _layer(config: ModelConfig, ratio: int, depth: int, memory: Any, draw: Draw) -> LayerState:
    layer = LayerState.new(config, ratio, memory)
    _fill(layer.window, depth, lambda count: encode_rows(draw.floats(count, config.kv_format.dims), config.kv_format))
    for store, format in ((layer.compressor, config.kv_format), (layer.indexer, config.key_format)):
        if store is not None:
            _fill_pool(store, format, depth, ratio, draw)
    return layer


def _fill(rows: SlidingRows, depth: int, make: Callable[[int], Any]) -> None:
    held = min(depth, rows.keep)
    rows.first = depth - held
    if held:
        rows.buffer[:held] = make(held)


def _fill_pool(store: CompressorState, format: RowFormat, depth: int, ratio: int, draw: Draw) -> None:
    for newest in (store.values, store.gates):
        width = newest.buffer.shape[1]
        _fill(newest, depth, lambda count, width=width: draw.floats(count, width))
    count = depth // ratio
    store.rows.make_room(0, count)
    for first in range(0, count, PIECE_ROWS):
        some = min(PIECE_ROWS, count - first)
        store.rows.buffer[first : first + some] = encode_rows(draw.floats(some, format.dims), format)
