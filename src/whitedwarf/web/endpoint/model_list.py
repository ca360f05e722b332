"""Which models a server has (`GET /models`), and the context of each, where it tells.

httpx2 is imported with the first question. Promises: answers are bounded, and no message has the key.
"""

import json
from dataclasses import dataclass
from typing import Any

from whitedwarf.errors import EndpointError
from whitedwarf.web.endpoint.server_options import ServerOptions

_LONGEST = 1 << 22  # bytes
_SILENCE_S = 60.0
_CONTEXT_NAMES = ("context_length", "max_model_len", "max_context_length", "n_ctx", "n_ctx_train")


@dataclass(frozen=True, slots=True)
class ModelList:
    """What came; `status` is HTTP's."""

    url: str
    status: int
    body: bytes

    @property
    def names(self) -> list[str]:
        """Of all models; empty where the answer is no list."""
        return [model["id"] for model in self._models()]

    def context_length(self, name: str) -> int | None:
        """Tokens that a model takes, as llama.cpp, vLLM, OpenRouter and we tell it."""
        for model in self._models():
            if model["id"] == name:
                meta = model.get("meta")
                places = [meta, model] if isinstance(meta, dict) else [model]
                told = [place.get(key) for place in places for key in _CONTEXT_NAMES]
                return next((length for length in told if type(length) is int and length > 0), None)
        return None

    def _models(self) -> list[dict[str, Any]]:
        try:
            listed = json.loads(self.body)["data"] if self.status == 200 else []
            return [model for model in listed if isinstance(model["id"], str)]
        except (ValueError, RecursionError, KeyError, TypeError):
            return []


def ask_models(options: ServerOptions) -> ModelList:
    """Ask for it; EndpointError when nobody answers."""
    import httpx2

    url = options.base + "/models"
    body = bytearray()
    try:
        with httpx2.stream("GET", url, headers=options.headers, timeout=_SILENCE_S) as response:
            for data in response.iter_bytes():
                body += data
                if len(body) > _LONGEST:
                    break
    except httpx2.HTTPError as error:
        told = options.hidden(" ".join(str(error).split()) or type(error).__name__)
        raise EndpointError(f"{url} does not answer: {told}; is the server running?") from error
    return ModelList(url, response.status_code, bytes(body))
