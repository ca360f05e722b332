"""How much memory a model with its whole context will need, and how long its prefill chunks may be: arithmetic over the
shape (spec/model.md 3)."""

from dataclasses import replace

from whitedwarf.engine.memory import Need
from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.state import LayerState, SequenceState

_F32_BYTES = 4
_QUANTISED_BYTES = 2  # of an activation as integers with its scales
LEAST_CHUNK, MOST_CHUNK = 512, 4096
ROWS_PER_EXPERT = 48  # tokens of a chunk that share the reading and unpacking of one expert's weights
MOST_SCRATCH_BYTES = 1 << 30
SCRATCH_SHARE = 8  # one part in so many of the memory there is may go to the buffers of a chunk


def memory_need(config: ModelConfig, weights_bytes: int, chunk_tokens: int) -> Need:
    """One sequence's compressed rows and index keys at the allowed context, and the buffers of one prefill chunk."""
    hp, context_length = config.hp, config.context_length
    rows_bytes = sum(_rows_bytes(config, ratio) for ratio in hp.compress_ratios)
    scratch_bytes = min(chunk_tokens, context_length) * row_scratch_bytes(hp) + _F32_BYTES * hp.vocab_size
    # A state without tokens has its windows and open groups already.
    fixed_bytes = scratch_bytes + SequenceState(config, hp.compress_ratios).size_bytes
    return Need(weights_bytes, rows_bytes, fixed_bytes, context_length)


def with_drafts(need: Need, config: ModelConfig, file_bytes: int) -> Need:
    """And a block's drafts, of every context: its window, and the streams of the rows that wait for it.

    `file_bytes`: of a file that holds the block alone; 0 where the model's own does.
    """
    hp = config.hp
    waiting_bytes = hp.sliding_window * hp.hc_streams * hp.hidden_size * _F32_BYTES
    state_bytes = SequenceState(config, (0,)).size_bytes + waiting_bytes
    fixed_bytes = need.fixed_bytes + need.parallel * state_bytes
    return replace(need, weights_bytes=need.weights_bytes + file_bytes, fixed_bytes=fixed_bytes)


def context_bytes_by_layer(config: ModelConfig, num_layers: int | None = None) -> tuple[int, ...]:
    """What each layer takes of a card for one sequence with a full context, an MTP block's behind them (`num_layers`).

    Rows that have to move get a quarter more room than they need (model/rows.py), and a card's memory is really taken.
    """
    ratios = [*config.hp.compress_ratios, 0][: num_layers or len(config.hp.compress_ratios)]
    sizes = {ratio: LayerState.new(config, ratio).size_bytes + _rows_bytes(config, ratio) * 5 // 4 for ratio in ratios}
    return tuple(sizes[ratio] for ratio in ratios)


def _rows_bytes(config: ModelConfig, ratio: int) -> int:
    """Compressed rows and index keys of one layer at the allowed context."""
    if not ratio:
        return 0
    row_bytes = config.kv_format.row_bytes + (config.key_format.row_bytes if ratio == 4 else 0)
    return config.context_length // ratio * row_bytes


def row_scratch_bytes(hp: Hyperparameters) -> int:
    """What a token of a chunk needs while a layer works on it: in attention or in the experts, whichever is more."""
    streams, heads = hp.hc_streams * hp.hidden_size, hp.num_heads * hp.head_dim
    index, inner = hp.index_heads * hp.index_head_dim, hp.num_experts_used * hp.expert_size
    # Queries and heads stay until the output is made, and memory that was lent stays with the backend: measured were
    # 0.9 MB a row of Flash, where what is needed at one time is 0.5.
    attention = _F32_BYTES * (2 * streams + 4 * heads + 2 * index + 8 * hp.head_dim) + _QUANTISED_BYTES * heads
    # The experts' middles are floats beside float weights.
    experts = _F32_BYTES * (streams + inner + 4 * hp.hidden_size)
    return max(attention, experts)


def fitting_chunk(config: ModelConfig, usable_bytes: int) -> int:
    """The default of --prefill-chunk: a power of two that gives every expert enough rows, and whose buffers are a small
    part of the memory there is; no longer than the context needs."""
    hp = config.hp
    wanted = ROWS_PER_EXPERT * hp.num_experts // hp.num_experts_used
    chunk = MOST_CHUNK
    while chunk > LEAST_CHUNK and (chunk > wanted or chunk >= 2 * config.context_length):
        chunk //= 2
    most_bytes = min(MOST_SCRATCH_BYTES, usable_bytes // SCRATCH_SHARE)
    while chunk > 1 and chunk * row_scratch_bytes(hp) > most_bytes:
        chunk //= 2
    return chunk
