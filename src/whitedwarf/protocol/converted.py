"""What every dialect's request becomes, and what its answer has to know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.options import Constraint, InferenceOptions
from whitedwarf.prompt.call_grammar import InputForm
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse_options import ParseOptions

ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True)
class Converted(Generic[ReplyT]):
    """One request, ready to be encoded and run.

    `reply` is what the dialect's answer builder needs; `warnings` say in words what was ignored;
    `unknown_fields` are names in the body's top level that nothing reads.
    """

    model: str
    version: ModelVersion
    conversation: Conversation
    inference: InferenceOptions
    constraint: Constraint | None
    parsing: ParseOptions
    is_streamed: bool
    reply: ReplyT
    num_choices: int = 1  # answers to the same prompt
    takes_one_call: bool = False  # the answer calls one tool, or none
    input_forms: Mapping[str, InputForm] = field(default_factory=dict)  # of custom tools, by name
    tool_paths: Mapping[str, str] = field(default_factory=dict)  # to their schemas in the request, by name
    warnings: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplyIdentity:
    """What every part of one answer carries; `created` in Unix seconds. `id` should be unguessable."""

    id: str
    model: str
    created: int


@dataclass(frozen=True, slots=True)
class PromptUsage:
    """Tokens of the prompt, and how many of them were not computed again."""

    prompt_tokens: int = 0
    cached_tokens: int = 0


NOT_MEASURED = PromptUsage()


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What Chat answers depend on. `usage_chunk`: usage comes in a chunk of its own after the last (OpenAI's way).

    `omits_null_usage`: chunks that tell no usage do not name it (a stream for which nobody asked for usage);
    `custom_tools` are names whose calls are told as custom calls with a plain `input`; `continues_answer`: the prompt
    ends with the beginning of an answer whose thinking is over (`ParseStart.CONTENT_CONTINUED`).
    """

    is_thinking: bool = False
    usage_chunk: bool = False
    custom_tools: frozenset[str] = frozenset()
    continues_answer: bool = False
    omits_null_usage: bool = False


@dataclass(frozen=True, slots=True)
class MessagesReply:
    """What Messages answers depend on; `signature` (default: the answer's id) closes each thinking block."""

    is_thinking: bool = False
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class CompletionReply:
    """What legacy Completions answers depend on."""

    usage_chunk: bool = False
    echoed_prompt: str = ""


@dataclass(frozen=True, slots=True)
class ResponsesReply:
    """What Responses answers depend on.

    `echo` holds the request's settings under the names that a response object repeats them by; `namespaces` maps the
    name a tool has for the model to (namespace, local name); calls of `custom_tools` are told as custom calls with a
    plain input; `searches_tools`: calls of `tool_search` are told as the client's tool search; `summarizes`: thoughts
    are told as a summary, which is what clients show; `is_official`: to the letter, without what clients need besides.
    """

    is_thinking: bool = False
    echo: Mapping[str, Json] = field(default_factory=dict)
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    custom_tools: frozenset[str] = frozenset()
    searches_tools: bool = False
    summarizes: bool = False
    is_official: bool = False
