"""A GGUF of 1.5 MB that a real llama-server runs on the CPU, and whose answers are fully determined.

One token for each byte, so N bytes of prompt are N tokens (and one for the beginning). Embeddings are one-hot,
attention and feed-forward are zero, the output matrix is a table of what follows what:

    a → b → … → z → a → …          never ends: long streams, cut by max_tokens
    5 → 4 → 3 → 2 → 1 → 0 → end    a digit counts down: the answer's length by choice
    everything else → "OK" → end

The chat template ends with the last character of the last message, so the prompt picks the answer. Tools are not
rendered, so they do not count.
"""

import struct
import sys
from collections.abc import Iterable
from pathlib import Path

CONTEXT = 32_768
WIDTH = 288  # tokens, and dimensions: each token has one of its own
HEADS = 9
FEED_FORWARD = 32
END = 2
SPACE = 259
ALIGNMENT = 32
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% if messages and messages[-1].content is string %}"
    "{{ messages[-1].content[-1:] }}{% endif %}{% endif %}"
)
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5

Tensor = tuple[str, tuple[int, ...], bytes]


def write_markov_gguf(path: Path, context: int = CONTEXT, padding_bytes: int = 0) -> None:
    """`padding_bytes` makes the file longer, by a wider feed-forward, and so its loading."""
    width = max(FEED_FORWARD, padding_bytes // (3 * WIDTH * 4) // 32 * 32)
    facts, tensors = _facts(context, width), _tensors(width)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts)) + b"".join(facts) + _directory(tensors)
    with path.open("wb") as file:
        for data in [head, *(data for _, _, data in tensors)]:
            file.write(data + bytes(-len(data) % ALIGNMENT))


def _token(character: str) -> int:
    return 3 + ord(character)


def _followers() -> list[int]:
    follower = [_token("O")] * WIDTH
    for index in range(26):
        follower[_token(chr(97 + index))] = _token(chr(97 + (index + 1) % 26))
    for digit in range(1, 10):
        follower[_token(str(digit))] = _token(str(digit - 1))
    follower[_token("0")] = END
    follower[_token("O")], follower[_token("K")], follower[END] = _token("K"), END, END
    return follower


def _facts(context: int, feed_forward: int) -> list[bytes]:
    words = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256)), "\u2581"]
    unused = [f"[UNUSED_{index}]" for index in range(WIDTH - len(words))]
    kinds = [2, 3, 3] + [6] * 256 + [1] + [5] * len(unused)
    return [
        _text("general.architecture", "llama"),
        _text("general.name", "markov-tiny"),
        _number("general.file_type", 0),
        _number("llama.context_length", context),
        _number("llama.embedding_length", WIDTH),
        _number("llama.block_count", 1),
        _number("llama.feed_forward_length", feed_forward),
        _number("llama.attention.head_count", HEADS),
        _number("llama.attention.head_count_kv", 1),
        _fact("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)),
        _number("llama.rope.dimension_count", WIDTH // HEADS),
        _number("llama.vocab_size", WIDTH),
        _text("tokenizer.ggml.model", "llama"),
        _list("tokenizer.ggml.tokens", STRING, [_string(word) for word in words + unused]),
        _list("tokenizer.ggml.scores", F32, [struct.pack("<f", 0.0)] * WIDTH),
        _list("tokenizer.ggml.token_type", I32, [struct.pack("<i", kind) for kind in kinds]),
        _number("tokenizer.ggml.bos_token_id", 1),
        _number("tokenizer.ggml.eos_token_id", END),
        _number("tokenizer.ggml.unknown_token_id", 0),
        _fact("tokenizer.ggml.add_bos_token", BOOL, b"\1"),
        _fact("tokenizer.ggml.add_space_prefix", BOOL, b"\0"),
        _text("tokenizer.chat_template", TEMPLATE),
    ]


def _tensors(feed_forward: int) -> list[Tensor]:
    follower, head = _followers(), WIDTH // HEADS
    precedes = {row: [token for token in range(WIDTH) if follower[token] == row] for row in range(WIDTH)}
    ones = struct.pack("<f", 1.0) * WIDTH
    return [
        ("token_embd.weight", (WIDTH, WIDTH), _rows({row: [row] for row in range(WIDTH)}, 1.0)),
        ("output_norm.weight", (WIDTH,), ones),
        ("output.weight", (WIDTH, WIDTH), _rows(precedes, 3.0)),
        ("blk.0.attn_norm.weight", (WIDTH,), ones),
        ("blk.0.ffn_norm.weight", (WIDTH,), ones),
        *(
            (f"blk.0.{name}.weight", shape, bytes(shape[0] * shape[1] * 4))
            for name, shape in {
                "attn_q": (WIDTH, WIDTH),
                "attn_k": (WIDTH, head),
                "attn_v": (WIDTH, head),
                "attn_output": (WIDTH, WIDTH),
                "ffn_gate": (WIDTH, feed_forward),
                "ffn_up": (WIDTH, feed_forward),
                "ffn_down": (feed_forward, WIDTH),
            }.items()
        ),
    ]


def _rows(columns_of_row: dict[int, list[int]], value: float) -> bytes:
    """A square matrix with `value` in these places."""
    data = bytearray(WIDTH * WIDTH * 4)
    for row, columns in columns_of_row.items():
        for column in columns:
            struct.pack_into("<f", data, (row * WIDTH + column) * 4, value)
    return bytes(data)


def _directory(tensors: Iterable[Tensor]) -> bytes:
    entries, offset = [], 0
    for name, shape, data in tensors:
        sizes = struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", size) for size in shape)
        entries.append(_string(name) + sizes + struct.pack("<IQ", 0, offset))
        offset += len(data) + -len(data) % ALIGNMENT
    return b"".join(entries)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _fact(name: str, kind: int, data: bytes) -> bytes:
    return _string(name) + struct.pack("<I", kind) + data


def _number(name: str, value: int) -> bytes:
    return _fact(name, U32, struct.pack("<I", value))


def _text(name: str, value: str) -> bytes:
    return _fact(name, STRING, _string(value))


def _list(name: str, kind: int, items: list[bytes]) -> bytes:
    return _fact(name, ARRAY, struct.pack("<IQ", kind, len(items)) + b"".join(items))


if __name__ == "__main__":
    write_markov_gguf(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:]))
