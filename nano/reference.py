"""Reference logits by transformers: `python -m nano.reference RELEASE_FOLDER` remakes tests/golden/nano/reference.json.

The prompts stay those of the file; what changes are the ten likeliest next tokens and their logits, in float32 with the
weights as stored. Needs `pip install transformers`.
"""

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer

from nano.places import ROOT, TOKENIZER

REFERENCE = ROOT / "tests" / "golden" / "nano" / "reference.json"


def main() -> None:
    parser = argparse.ArgumentParser(description="Remake the reference logits of nano.")
    parser.add_argument("release", type=Path)
    parser.add_argument("--target", type=Path, default=REFERENCE)
    arguments = parser.parse_args()
    import transformers

    options = {"dtype": torch.float32, "attn_implementation": "eager", "experts_implementation": "eager"}
    model = transformers.DeepseekV4ForCausalLM.from_pretrained(arguments.release, **options).eval()
    tokenizer = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
    prompts = json.loads(REFERENCE.read_text(encoding="utf-8"))["prompts"]
    for prompt in prompts:
        with torch.no_grad():
            logits = model(torch.tensor([prompt["token_ids"]]), use_cache=False).logits[0, -1]
        best = logits.topk(10)
        prompt["top10"] = [
            {
                "id": int(token),
                "text": tokenizer.decode([int(token)], skip_special_tokens=False),
                "logit": round(float(value), 6),
            }
            for value, token in zip(*best, strict=True)
        ]
        prompt["logsumexp"] = round(float(logits.logsumexp(0)), 6)
    note = (
        f"next-token logits after token_ids; transformers {transformers.__version__} DeepseekV4ForCausalLM, float32, "
        "eager, weights of the release folder the bundled model was made from (BF16/F32 as stored); no FP8/FP4 "
        "activation simulation"
    )
    text = json.dumps({"note": note, "prompts": prompts}, ensure_ascii=False, indent=1)
    arguments.target.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
