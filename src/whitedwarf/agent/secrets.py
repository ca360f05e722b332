"""Keys and passwords are masked where a text is kept for people: traces, not what the model reads.

Promises: masking again changes nothing, a masked text is at most twice as long, and all but the secrets stays. What is
known is masked anywhere (the values of environment variables whose names say so); what only looks like a key is masked
by its shape. A guess: what has no shape and no name is not found.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

MASK = "[secret]"
LEAST_KNOWN_CHARS = 8  # shorter values are words of any text
_NAME = (
    r"(?:API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN(?!IZ|S(?:_|\b))|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|"
    r"(?<=_)KEY|(?<=_)PASS)"
)
_TELLING_NAME = re.compile(rf"\w*{_NAME}\w*", re.IGNORECASE)
_SHAPES = (
    r"\bsk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic, DeepSeek, OpenRouter
    r"\bhf_[A-Za-z0-9]{20,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\bxox[abposr]-[A-Za-z0-9-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[A-Za-z0-9_-]{30,}",
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",  # JSON web tokens
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s:,]|-(?!-)){0,20000}(?:-----END [A-Z ]{0,40}KEY-----)?",
)
_AFTER_WORDS = (  # the group stays
    r"\b((?i:Bearer|Basic) +)(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{8,}=*",
    r"\b((?i:x-api-key|api-key)[\"']? *: *[\"']?)[^\s\"']{8,}",
    rf"\b([A-Z0-9_]{{0,40}}{_NAME}[A-Z0-9_]{{0,40}}=[\"']?)[^\s\"']{{4,}}",
    r"(?<=://)([^\s/:@]{1,100}:)[^\s/:@]{4,200}(?=@)",
)


@dataclass(frozen=True)
class Secrets:
    """What to mask: everything by its shape, and these values."""

    known: tuple[str, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Secrets":
        """With the values of those variables whose names tell that they are secret."""
        values = {
            value
            for name, value in environment.items()
            if _TELLING_NAME.fullmatch(name) and len(value) >= LEAST_KNOWN_CHARS and not value.startswith(("/", "~"))
        }
        return cls(tuple(sorted(values, key=lambda value: (-len(value), value))))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join([*map(re.escape, self.known), *_SHAPES, *_AFTER_WORDS]))

    def mask(self, text: str) -> str:
        """The text without them."""
        while True:
            masked = MASK.join(self._pattern.sub(_masked, piece) for piece in text.split(MASK))
            if masked == text:
                return text
            text = masked


def _masked(found: re.Match[str]) -> str:
    return (found[found.lastindex] if found.lastindex else "") + MASK
