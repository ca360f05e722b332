"""What commands of the model get to see of our environment.

Left out are the keys that are ours: those of models, of the hub, and of our own servers. Those of other tools (git,
cloud services) stay, because the user's commands need them; what they print is masked in traces (agent/secrets.py).
"""

import re
from collections.abc import Mapping

_OURS = re.compile(
    r"WHITEDWARF_\w*(KEY|TOKEN|SECRET|PASSWORD)\w*|HF_TOKEN|HUGGING_?FACE(_HUB)?_TOKEN|"
    r"(OPENAI|ANTHROPIC|DEEPSEEK|OPENROUTER)_(API_KEY|AUTH_TOKEN|KEY)",
    re.IGNORECASE,
)
_CALM = {"PAGER": "cat", "GIT_PAGER": "cat", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"}  # nobody is there to type


def child_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Without our keys, and with what keeps programs from waiting for somebody."""
    return {name: value for name, value in ours.items() if not _OURS.fullmatch(name)} | _CALM
