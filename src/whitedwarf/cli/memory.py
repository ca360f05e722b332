"""How much memory a model with its whole context will need: arithmetic over the shape (spec/model.md 3)."""

from whitedwarf.engine.memory import Need
from whitedwarf.model.config import ModelConfig

_F32_BYTES = 4


def memory_need(config: ModelConfig, weights_bytes: int, chunk_tokens: int) -> Need:
    """One sequence's compressed rows and index keys at full context, and the buffers of one prefill chunk."""
    hp = config.hp
    rows_bytes = 0
    for ratio in hp.compress_ratios:
        if ratio:
            rows_bytes += hp.context_length // ratio * config.kv_format.row_bytes
        if ratio == 4:
            rows_bytes += hp.context_length // ratio * config.key_format.row_bytes
    chunk = min(chunk_tokens, hp.context_length)
    # Per row of a chunk: the streams twice, the heads twice, and the experts' inner rows; then one row of logits.
    inner = hp.num_experts_used * hp.expert_size
    per_token = 2 * hp.hc_streams * hp.hidden_size + 2 * hp.num_heads * hp.head_dim + inner
    buffers_bytes = _F32_BYTES * (chunk * per_token + hp.vocab_size)
    return Need(weights_bytes, rows_bytes, buffers_bytes, hp.context_length)
