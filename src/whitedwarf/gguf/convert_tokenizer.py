"""A release's tokenizer files as GGUF metadata (model.md 4.2): tokens, their types, merges, special ids, chat template.

Promises one token for every id of the model's vocabulary and the pre-tokenizer that the name `joyai-llm` stands for;
any other tokenizer is refused, because it would be cut differently without anyone noticing. It does not tokenize.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.metadata import MetadataValue
from whitedwarf.gguf.safetensors_source import read_json
from whitedwarf.gguf.types import ValueType

TokenizerMetadata = dict[str, tuple[ValueType, MetadataValue]]

_PRE_TOKENIZER = "joyai-llm"
_SPLITS = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
)
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
_SPECIAL_IDS = {"bos": "bos_token", "eos": "eos_token", "padding": "pad_token"}


def tokenizer_metadata(folder: Path, config: Mapping[str, object], vocab_size: int) -> TokenizerMetadata:
    """Every `tokenizer.*` key. Raises FileFormatError for a missing, foreign or too large tokenizer."""
    path = folder / "tokenizer.json"
    tokenizer = read_json(path)
    settings_path = folder / "tokenizer_config.json"
    settings = read_json(settings_path) if settings_path.exists() else {}
    model = tokenizer.get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        raise FileFormatError(f"{path}: expected a byte-level BPE model, found {_kind(model)}")
    _require_pre_tokenizer(path, tokenizer.get("pre_tokenizer"))
    tokens, types = _vocabulary(path, model.get("vocab"), tokenizer.get("added_tokens", []), vocab_size)
    special = _special_ids(path, tokens, settings, config)
    template = _chat_template(folder, settings)
    return {
        "tokenizer.ggml.model": (ValueType.STRING, "gpt2"),
        "tokenizer.ggml.pre": (ValueType.STRING, _PRE_TOKENIZER),
        "tokenizer.ggml.tokens": (ValueType.ARRAY, tokens),
        "tokenizer.ggml.token_type": (ValueType.ARRAY, np.array(types, np.int32)),
        "tokenizer.ggml.merges": (ValueType.ARRAY, _merges(path, model.get("merges"))),
        **{f"tokenizer.ggml.{name}_token_id": (ValueType.UINT32, number) for name, number in special.items()},
        "tokenizer.ggml.add_bos_token": (ValueType.BOOL, settings.get("add_bos_token") is True),
        "tokenizer.ggml.add_eos_token": (ValueType.BOOL, settings.get("add_eos_token") is True),
        **({} if template is None else {"tokenizer.chat_template": (ValueType.STRING, template)}),
    }


def _kind(model: object) -> str:
    return repr(model.get("type")) if isinstance(model, dict) else "none"


def _require_pre_tokenizer(path: Path, pre_tokenizer: object) -> None:
    steps = pre_tokenizer.get("pretokenizers") if isinstance(pre_tokenizer, dict) else None
    patterns: list[object] = []
    for step in steps if isinstance(steps, list) else []:
        pattern = step.get("pattern") if isinstance(step, dict) else None
        if isinstance(pattern, dict):
            patterns.append(pattern.get("Regex"))
    if tuple(patterns) != _SPLITS:
        raise FileFormatError(
            f"{path}: expected DeepSeek V4's pre-tokenizer ({_PRE_TOKENIZER}), found {patterns!r:.200}"
        )


def _vocabulary(path: Path, vocab: object, added: object, vocab_size: int) -> tuple[list[str], list[int]]:
    """One text and one type for every id; ids that nobody names are unused."""
    if not isinstance(vocab, dict) or not isinstance(added, list):
        raise FileFormatError(f"{path}: expected a vocabulary and a list of added tokens")
    named: dict[int, tuple[str, int]] = {}
    for text, number in vocab.items():
        _name(path, named, number, text, _NORMAL, vocab_size)
    for token in added:
        text, number = (token.get("content"), token.get("id")) if isinstance(token, dict) else (None, None)
        if not isinstance(text, str) or not isinstance(number, int):
            raise FileFormatError(f"{path}: expected added tokens with a text and an id, found {token!r:.80}")
        is_control = token.get("special") is True or _looks_special(text)
        _name(path, named, number, text, _CONTROL if is_control else _USER_DEFINED, vocab_size)
    both = [named.get(number, (f"[PAD{number}]", _UNUSED)) for number in range(vocab_size)]
    return [text for text, _ in both], [kind for _, kind in both]


def _name(path: Path, named: dict[int, tuple[str, int]], number: object, text: str, kind: int, vocab_size: int) -> None:
    if not isinstance(number, int) or not 0 <= number < vocab_size:
        raise FileFormatError(
            f"{path}: token {text!r:.40} has id {number!r}, expected 0 to {vocab_size - 1} (vocab_size)"
        )
    if number in named and named[number][0] != text:
        raise FileFormatError(f"{path}: id {number} is both {named[number][0]!r:.40} and {text!r:.40}")
    named[number] = (text, kind)


def _looks_special(text: str) -> bool:
    """DeepSeek marks `<｜User｜>` and the like as ordinary added tokens, yet no text may ever spell them."""
    return text.startswith(("<｜", "<|")) and text.endswith(("｜>", "|>"))


def _merges(path: Path, merges: object) -> list[str]:
    if not isinstance(merges, list) or not merges:
        raise FileFormatError(f"{path}: expected a list of merges")
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    for pair in pairs:
        if not _is_merge(pair):
            raise FileFormatError(f"{path}: expected merges of two byte-level pieces, found {pair!r:.80}")
    return [f"{left} {right}" for left, right in pairs]


def _is_merge(pair: object) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    return all(isinstance(piece, str) and piece and " " not in piece for piece in pair)


def _special_ids(
    path: Path, tokens: list[str], settings: Mapping[str, object], config: Mapping[str, object]
) -> dict[str, int]:
    """Ids by the texts of tokenizer_config.json, else as config.json says; padding may be absent."""
    found: dict[str, int] = {}
    for name, key in _SPECIAL_IDS.items():
        entry = settings.get(key)
        text = entry.get("content") if isinstance(entry, dict) else entry
        number = tokens.index(text) if text in tokens else config.get(f"{key}_id")
        if isinstance(number, list) and number:
            number = number[0]
        if isinstance(number, int) and 0 <= number < len(tokens):
            found[name] = number
        elif name != "padding":
            raise FileFormatError(
                f"{path.parent}: expected a {key} in tokenizer_config.json or config.json, found none"
            )
    return found


def _chat_template(folder: Path, settings: Mapping[str, object]) -> str | None:
    """The checkpoint's own template; the release has none, since its prompts are made by code."""
    separate = folder / "chat_template.jinja"
    if separate.exists():
        try:
            return separate.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise FileFormatError(f"{separate}: expected UTF-8 text, got {error}. Download the file again.") from error
    template = settings.get("chat_template")
    if isinstance(template, list):  # several named ones
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
