"""Render the nano evaluation (eval.jsonl) to token ids with DeepSeek's own recipe: tests/golden/nano/eval.npz.

Its `nano_passes` are those of the workshop's checkpoint; `python -m nano.mark_evaluation` marks those of another.

    python scripts/make_nano_golden.py ../shared/nano tests/golden/nano/eval.npz

Needs deepseek-recipe (test extra) and nano's own tokenizer.json. The ids are stored so that the evaluation measures the
engine alone: neither our prompt encoder nor our tokenizer takes part.
"""

import json
import sys
from pathlib import Path

import numpy as np
from deepseek_recipe import (
    AssistantMessage,
    Conversation,
    DeepseekV4Encoding,
    SystemMessage,
    ToolCall,
    ToolDefinition,
    ToolMessage,
    UserMessage,
)
from tokenizers import Tokenizer

EOS = "<｜end▁of▁sentence｜>"
TAG = "｜DSML｜"


def message(item: dict, thinking: bool):
    match item["role"]:
        case "system":
            return SystemMessage(item["content"])
        case "user":
            return UserMessage(item["content"])
        case "tool":
            return ToolMessage(item["content"], item["tool_call_id"])
    calls = [ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in item.get("tool_calls", [])]
    reasoning = item.get("reasoning_content") if thinking else None
    return AssistantMessage(item["content"], reasoning_content=reasoning, tool_calls=calls or None)


def prompt_text(row: dict) -> str:
    functions = [tool["function"] for tool in row.get("tools", [])]
    tools = [ToolDefinition(f["name"], f["description"], f["parameters"]) for f in functions]
    options = {}
    if "reasoning_effort" in row:
        options["reasoning_effort"] = row["reasoning_effort"]
    if "response_format" in row:
        options["response_format"] = row["response_format"]["type"]
    messages = [message(item, row["thinking"]) for item in row["messages"]]
    conversation = Conversation(messages, thinking_mode=row["thinking"], tools=tools or None, **options)
    return DeepseekV4Encoding().render_conversation(conversation).prompt


def call_text(call: dict) -> list[str]:
    lines = [f'<{TAG}invoke name="{call["name"]}">']
    for name, value in call["arguments"].items():
        kind, text = ("true", value) if isinstance(value, str) else ("false", json.dumps(value, ensure_ascii=False))
        lines.append(f'<{TAG}parameter name="{name}" string="{kind}">{text}</{TAG}parameter>')
    return [*lines, f"</{TAG}invoke>"]


def expected_text(row: dict) -> str:
    expect, text = row["expect"], row["expect"]["content"]
    if row["thinking"]:
        text = f"{expect['reasoning_content']}</think>{text}"
    if expect["tool_calls"]:
        lines = [line for call in expect["tool_calls"] for line in call_text(call)]
        text += "\n\n" + "\n".join([f"<{TAG}tool_calls>", *lines, f"</{TAG}tool_calls>"])
    return text + EOS


def main(source: Path, target: Path) -> None:
    tokenizer = Tokenizer.from_file(str(source / "official" / "tokenizer.json"))
    arrays, names, families, passes = {}, [], [], []
    for line in (source / "eval.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        prompt = tokenizer.encode(prompt_text(row), add_special_tokens=False).ids
        if len(prompt) != row["prompt_tokens"]:
            raise SystemExit(f"{row['id']}: {len(prompt)} prompt tokens, the file says {row['prompt_tokens']}")
        answer = tokenizer.encode(expected_text(row), add_special_tokens=False).ids
        arrays[f"{row['id']}/prompt"] = np.array(prompt, np.int16)
        arrays[f"{row['id']}/answer"] = np.array(answer, np.int16)
        names.append(row["id"])
        families.append(row["family"])
        passes.append(row["nano_passes"])
    np.savez_compressed(target, names=names, families=families, nano_passes=passes, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
