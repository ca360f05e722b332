"""`whitedwarf gguf calibrate`: a corpus of rendered conversations to collect importance over (product.md E.2)."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from whitedwarf.calibration.dataset import block_ids, block_text
from whitedwarf.calibration.records import CATEGORIES, Record, ThinkModes, rendered
from whitedwarf.calibration.records import records as make_records
from whitedwarf.cli.loading import open_tokenizer
from whitedwarf.cli.one_line import one_line
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.recipe_dump import dumped_conversation
from whitedwarf.config import POSITIVE
from whitedwarf.errors import UsageError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer

SHOWN_EVERY = 200  # records


def command(
    *,
    out: Annotated[Path, Parameter(name=("--out", "-o"))],
    records: Annotated[int, Parameter(validator=POSITIVE)] = 1000,
    seed: int = 0,
    categories: str = ",".join(CATEGORIES),
    think: ThinkModes = "both",
    recipe: Literal["v4", "v4.1"] = "v4",
    jsonl: Path | None = None,
    manifest: Path | None = None,
    tokens_of: Annotated[Path | None, Parameter(name=("--tokens-of", "--model", "-m"))] = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Write a calibration corpus: agents at work, code, prose in twelve languages, translations, mathematics, data,
    long texts, chat. The same seed gives the same bytes everywhere; a longer corpus begins with a shorter one.

    `whitedwarf gguf imatrix` reads it.

    Parameters
    ----------
    out
        The text file: rendered conversations behind lines that begin with ===== WHITEDWARF_PROMPT.
    records
        How many conversations. About 4 KB of text each.
    seed
        Another number, another corpus.
    categories
        Only these kinds, with commas between.
    think
        Conversations in which the model thinks, those in which it does not, or half of each.
    recipe
        The prompt encoding: v4, or v4.1 for models that were trained with it.
    jsonl
        Also write the conversations as JSON lines, which `whitedwarf recipe render` reads. Default: none.
    manifest
        Also write what the corpus holds as JSON: counts by kind, digest. Default: none.
    tokens_of
        Count the tokens with this model's tokenizer. Default: tokens are not counted.
    as_json
        Print the manifest instead of a line.
    """
    chosen = _chosen(categories)
    outputs = [path for path in (out, jsonl, manifest) if path is not None]
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise UsageError("--out, --jsonl and --manifest need files of their own")
    for path in outputs:
        check_output(path, [] if tokens_of is None else [tokens_of])
    tokenizer = None if tokens_of is None else _tokenizer(tokens_of)
    corpus = _Corpus(ModelVersion(recipe.upper()), tokenizer, keeps_lines=jsonl is not None)
    corpus.write(records, seed, chosen, think)
    facts = {
        "seed": seed,
        "think": think,
        "recipe": recipe,
        "tokenizer": None if tokens_of is None else tokens_of.name,
        **corpus.facts(),
    }
    write_text(out, corpus.text)
    if jsonl is not None:
        write_text(jsonl, "".join(corpus.lines))
    if manifest is not None:
        write_text(manifest, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    if as_json:
        print(json.dumps({"file": str(out), **facts}, ensure_ascii=False))
    else:
        told = "" if tokenizer is None else f", {sum(corpus.tokens.values())} tokens"
        print(one_line(f"{out}: {records} conversations, {len(corpus.text.encode())} bytes{told}"))


def _chosen(text: str) -> list[str]:
    found = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in found if word not in CATEGORIES]
    if unknown or not found:
        raise UsageError(f"--categories {text}: expected some of {', '.join(CATEGORIES)}, with commas between")
    return found


def _tokenizer(path: Path) -> Tokenizer:
    with open_gguf(path) as gguf:
        return open_tokenizer(gguf)


class _Corpus:
    """The files' texts as they grow, and what they hold."""

    def __init__(self, version: ModelVersion, tokenizer: Tokenizer | None, *, keeps_lines: bool) -> None:
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()
        self.modes: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self._blocks: list[str] = []
        self._version, self._tokenizer, self._keeps_lines = version, tokenizer, keeps_lines

    @property
    def text(self) -> str:
        return "".join(self._blocks)

    def write(self, count: int, seed: int, categories: list[str], think: ThinkModes) -> None:
        progress = ProgressLine()
        for record in self._shown(make_records(count, seed, categories, think), count, progress):
            self._add(record)
        progress.clear()

    def facts(self) -> dict[str, object]:
        """Counts, and the digest of the text file."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()
        return {
            "records": sum(self.counts.values()),
            "categories": dict(self.counts),
            "modes": dict(self.modes),
            "tokens": sum(self.tokens.values()) if self._tokenizer else None,
            "tokens_by_category": dict(self.tokens),
            "bytes": len(self.text.encode()),
            "sha256": digest,
        }

    def _add(self, record: Record) -> None:
        prompt = rendered(record, self._version)
        self._blocks.append(block_text((str(record.number), record.category, record.mode), prompt))
        self.counts[record.category] += 1
        self.modes[record.mode] += 1
        if self._tokenizer is not None:
            self.tokens[record.category] += len(block_ids(self._tokenizer, prompt))
        if self._keeps_lines:
            line = {
                "id": f"{record.number:06}",
                "category": record.category,
                "conversation": dumped_conversation(record.conversation),
            }
            self.lines.append(json.dumps(line, ensure_ascii=False) + "\n")

    def _shown(self, made: Iterator[Record], count: int, progress: ProgressLine) -> Iterator[Record]:
        for record in made:
            if progress.is_terminal and record.number % SHOWN_EVERY == 0:
                progress.show(f"conversation {record.number}/{count}")
            yield record
