"""Where things lie in the repository."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGED = ROOT / "src" / "whitedwarf" / "data" / "nano.gguf"
PACKAGED_DRAFT = PACKAGED.with_name("nano-mtp.gguf")
EVALUATION = ROOT / "tests" / "golden" / "nano" / "eval.npz"
TOKENIZER = ROOT / "nano" / "tokenizer"
BUILD = ROOT / "build" / "nano"
