"""DeepSeek's own deepseek-recipe doing the same work in the same run, where it is installed (a test dependency).

Nothing else in the product knows it.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

REQUESTS = {"chat": "ChatCompletionRequest", "responses": "ResponsesRequest", "messages": "MessagesRequest"}


class Wheel:
    """The official library with one tokenizer."""

    def __init__(self, library: Any, tokenizer_file: Path) -> None:
        self.version: str = library.__version__
        self._library = library
        self._encoding = library.DeepseekV4Encoding().with_tokenizer(library.Tokenizer.from_file(str(tokenizer_file)))

    def encoder(self, dialect: str) -> Callable[[bytes], list[int]]:
        """Request bytes to ids, in that dialect."""
        request_of, options = getattr(self._library, REQUESTS[dialect]), self._library.ConversionOptions()
        encode = self._encoding.encode
        return lambda body: encode(request_of(body).convert(options).conversation)


def find_wheel(tokenizer_file: Path) -> Wheel | None:
    """The library, or None where it is not installed."""
    try:
        library = importlib.import_module("deepseek_recipe")
    except ImportError:
        return None
    return Wheel(library, tokenizer_file)
