"""A program for a test: a one-shot answer by a model whose every pass takes a minute."""

import sys
import threading
from pathlib import Path

from fakes.models import FakeModel
from fakes.tokenizer_json import metadata_from_tokenizer_json
from whitedwarf.cli.oneshot import answer_once
from whitedwarf.config import SamplingSettings
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.engine import Engine
from whitedwarf.prompt.tokenizer import Tokenizer

NANO_JSON = Path(__file__).parents[1] / "golden" / "prompt" / "nano_tokenizer.json"


class SlowModel:
    context_length = 1024

    def engine(self) -> Engine:
        return Engine(FakeModel(vocab_size=4096, before_forward=self.wait), max_parallel=1)

    def expert_counts(self) -> dict[str, float]:
        return {}

    def wait(self, spans: object) -> None:
        print("running", flush=True)
        threading.Event().wait(60)


if __name__ == "__main__":
    tokenizer = Tokenizer.from_metadata(metadata_from_tokenizer_json(NANO_JSON))
    answer_once(SlowModel(), tokenizer, "hello", "", Thinking.NONE, SamplingSettings())  # type: ignore[arg-type]
    sys.exit("not reached")
