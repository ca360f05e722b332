"""Writes tests/golden/evals/nano.json: what the bundled nano answers to a few questions, by token counts.

    python scripts/make_eval_golden.py

Run it when nano, the prompts or the extractors have changed on purpose; tests/evals/test_golden.py then holds
everything else to it. The questions are those beside it, so that the built-in ones can be reworded. At the scalar
level, which every machine has: at others amx may round otherwise.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).parents[1] / "tests" / "golden" / "evals" / "nano.json"
EXAM = ["--cases", "cases.jsonl", "-n", "96"]
LIMITS = ["--soft-limit-reply-budget", "93", "--hard-limit-reply-budget", "91"]
KEPT = ("source", "id", "status", "given", "expected", "prompt_tokens", "generated_tokens", "think_close")


def main() -> None:
    """Ask, and keep what is compared."""
    words = ["eval", "--plain", "--seed", "1", *EXAM, *LIMITS]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exam.json"
        subprocess.run(
            [sys.executable, "-m", "whitedwarf", *words, "--json", str(file)],
            env=os.environ | {"WHITEDWARF_CPU_LEVEL": "scalar", "WHITEDWARF_MODEL": ""},
            stdout=subprocess.DEVNULL,
            cwd=TARGET.parent,
            check=False,  # 1: nano answers something wrongly
        )
        document = json.loads(file.read_text())
    kept = {
        "command": words,
        "whitedwarf_eval": document["whitedwarf_eval"],
        "settings": document["settings"],
        "cases": [{name: case[name] for name in KEPT} for case in document["cases"]],
    }
    TARGET.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
