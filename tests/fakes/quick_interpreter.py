"""Triton's interpreter without what it does again at every call of a device function: half of its time.

Before each such call it looks through all of `triton.language` for what it has to replace, which it has done already
when the kernel, or another function of the same module, was started. Nothing else is changed.
"""

import sys
from typing import Any


def make_quick() -> None:
    """If Triton is here to interpret; once is enough."""
    interpreter = sys.modules.get("triton.runtime.interpreter")
    if interpreter is None or hasattr(interpreter.GridExecutor, "quick"):
        return
    seen: set[int] = set()  # modules whose language is replaced while this kernel runs
    launch = interpreter.GridExecutor.__call__

    def start(executor: Any, *arguments: Any, **named: Any) -> Any:
        seen.clear()
        return launch(executor, *arguments, **named)

    def call(function: Any, *arguments: Any, **named: Any) -> Any:
        module = id(function.fn.__globals__)
        if module not in seen:
            interpreter._patch_lang(function.fn)
            seen.add(module)
        body = function.rewrite()
        try:
            return body(*arguments, **named)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    interpreter.GridExecutor.__call__ = start
    interpreter.GridExecutor.quick = True
    interpreter.InterpretedFunction.__call__ = call
