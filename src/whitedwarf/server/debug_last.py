"""What GET /debug/last tells with --script: the last request as it reached the engine. A plain JSON object."""

from dataclasses import asdict

from whitedwarf.conversation.json_value import Json
from whitedwarf.engine.request import GenerateOptions
from whitedwarf.engine.scripted_job import Received
from whitedwarf.prompt.tokenizer import Tokenizer


def debug_last(received: Received | None, tokenizer: Tokenizer) -> dict[str, Json]:
    """The rendered prompt, ids, options and reuse figures; `{"number": 0}` before the first request.

    `reused_tokens` is null while the request waits, `finish` until it has ended.
    """
    if received is None:
        return {"number": 0}
    return {
        "number": received.number,
        "prompt": tokenizer.decode(received.ids),
        "prompt_ids": list(received.ids),
        "options": _options(received.options),
        "prompt_tokens": len(received.ids),
        "reused_tokens": received.reused_tokens,
        "processed_tokens": received.processed_tokens,
        "answer": tokenizer.decode(received.generated_ids),
        "answer_ids": list(received.generated_ids),
        "finish": received.finish,
    }


def _options(options: GenerateOptions) -> dict[str, Json]:
    sampling = asdict(options.sampling) | {"logit_bias": [list(pair) for pair in options.sampling.logit_bias]}
    return asdict(options) | {
        "sampling": sampling,
        "stop_ids": sorted(options.stop_ids),
        "checkpoints": list(options.checkpoints),
    }
