"""How much memory a model with its whole context will need: arithmetic over the shape (spec/model.md 3)."""

from whitedwarf.engine.memory import Need
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.state import SequenceState

_F32_BYTES = 4


def memory_need(config: ModelConfig, weights_bytes: int, chunk_tokens: int) -> Need:
    """One sequence's compressed rows and index keys at the allowed context, and the buffers of one prefill chunk."""
    hp, context_length = config.hp, config.context_length
    rows_bytes = 0
    for ratio in hp.compress_ratios:
        if ratio:
            rows_bytes += context_length // ratio * config.kv_format.row_bytes
        if ratio == 4:
            rows_bytes += context_length // ratio * config.key_format.row_bytes
    chunk = min(chunk_tokens, context_length)
    # Per row of a chunk: the streams twice, the heads twice, and the experts' inner rows; then one row of logits.
    inner = hp.num_experts_used * hp.expert_size
    per_token = 2 * hp.hc_streams * hp.hidden_size + 2 * hp.num_heads * hp.head_dim + inner
    buffers_bytes = _F32_BYTES * (chunk * per_token + hp.vocab_size)
    # A state without tokens has its windows and open groups already.
    fixed_bytes = buffers_bytes + SequenceState(config, hp.compress_ratios).size_bytes
    return Need(weights_bytes, rows_bytes, fixed_bytes, context_length)
