"""Who is examined, opened from the options: an engine with the context that the exam needs, or a server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

from whitedwarf.cli.eval_flags import ExamSettings
from whitedwarf.cli.loading import LoadedModel, note, open_model, open_tokenizer
from whitedwarf.cli.steering_flags import steered, steering_wish
from whitedwarf.config import ModelSettings, SteeringSettings
from whitedwarf.conversation.thinking import MAX_THINKING_CONTEXT, Thinking
from whitedwarf.engine.engine import Engine
from whitedwarf.errors import UsageError
from whitedwarf.evals.budget import Limits
from whitedwarf.evals.case import Case
from whitedwarf.evals.context import ChosenContext, chosen_context
from whitedwarf.evals.grade import ThinkMode
from whitedwarf.evals.target import Asking, Target, TargetFacts
from whitedwarf.evals.target_engine import EngineTarget, prompt_ids
from whitedwarf.gguf.hparams import from_metadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import find_model


@dataclass(frozen=True, slots=True)
class Opened:
    """`thinking` is the mode that is possible; `summary` says in a few words who answers; `files` are being read."""

    target: Target
    thinking: ThinkMode
    max_prompt_tokens: int | None
    summary: str
    files: tuple[Path, ...] = ()


@contextmanager
def open_target(
    cases: Sequence[Case],
    asking: Asking,
    limits: Limits,
    exam: ExamSettings,
    model: ModelSettings,
    steering: SteeringSettings,
) -> Iterator[Opened]:
    """The target, closed at the end; what cannot be is refused before anything is loaded."""
    if exam.url is not None:
        _check_for_server(exam, model, steering)
        with _server(asking, exam, model) as opened:
            yield opened
        return
    for flag, value in (("--api-key-env", exam.api_key_env), ("--extra-body", exam.extra_body)):
        if value is not None:
            raise UsageError(f"{flag} is for a server: give its --url")
    with _engine(cases, asking, limits, exam, model, steering) as opened:
        yield opened


@contextmanager
def _engine(
    cases: Sequence[Case],
    asking: Asking,
    limits: Limits,
    exam: ExamSettings,
    model: ModelSettings,
    steering: SteeringSettings,
) -> Iterator[Opened]:
    wish = steering_wish(steering)
    fitting = _fit(cases, asking, model)
    for warning in fitting.context.warnings:
        note(warning)
    if asking.thinking != "none" and asking.max_tokens <= limits.hard:
        note(f"--tokens {asking.max_tokens} leave no room for thoughts beside the {limits.hard} of the answer")
    loaded = steered(open_model(replace(model, context=fitting.context.tokens), parallel=exam.parallel), wish)
    engine = Engine(
        loaded.transformer,
        max_chunk_tokens=loaded.chunk_tokens,
        max_parallel=exam.parallel,
        power_percent=model.power,
        drafting=loaded.drafting(),
    )
    with engine:
        target = EngineTarget(engine, loaded.tokenizer(), _facts(loaded), fitting.thinking, limits)
        yield Opened(target, fitting.thinking, fitting.longest_prompt, loaded.describe(), tuple(loaded.gguf.paths))


@dataclass(frozen=True, slots=True)
class _Fitting:
    context: ChosenContext
    thinking: ThinkMode
    longest_prompt: int


def _fit(cases: Sequence[Case], asking: Asking, model: ModelSettings) -> _Fitting:
    """The context that the exam gets, found out from the file's tokenizer alone."""
    with open_gguf(find_model(model.model).path) as gguf:
        native = from_metadata(gguf.metadata, gguf.tensors).context_length
        tokenizer = open_tokenizer(gguf)
        if model.context is not None and model.context > native:
            raise UsageError(f"--ctx {model.context}: this model has a context of {native}; give at most that")
        found = _fitting(cases, asking, asking.thinking, tokenizer, model.context, native)
        allowed = Thinking(asking.thinking).within(found.context.tokens)
        if allowed.value == asking.thinking:
            return found
        note(f"--think-max needs a context of {MAX_THINKING_CONTEXT}, here are {found.context.tokens}: using --think")
        return _fitting(cases, asking, allowed.value, tokenizer, model.context, native)


def _fitting(
    cases: Sequence[Case],
    asking: Asking,
    thinking: ThinkMode,
    tokenizer: Tokenizer,
    asked: int | None,
    native: int,
) -> _Fitting:
    longest = max(len(prompt_ids(case, thinking, tokenizer)) for case in cases)
    context = chosen_context(longest, asking.max_tokens, thinking, asked=asked, native=native)
    return _Fitting(context, thinking, longest)


def _facts(loaded: LoadedModel) -> TargetFacts:
    hp = loaded.transformer.config.hp
    return TargetFacts(
        model=loaded.gguf.paths[0].name,
        shape=f"layers {hp.num_layers}, width {hp.hidden_size}, experts {hp.num_experts_used} of {hp.num_experts}",
        backend=loaded.transformer.ops.name,
        context_tokens=loaded.context_length,
    )


@contextmanager
def _server(asking: Asking, exam: ExamSettings, model: ModelSettings) -> Iterator[Opened]:
    from whitedwarf.evals.target_url import UrlTarget
    from whitedwarf.web.endpoint.address import is_overheard
    from whitedwarf.web.endpoint.server_options import server_options

    assert exam.url is not None
    options = server_options(exam.url, exam.api_key_env, model.model, exam.extra_body)
    if options.key is not None and is_overheard(options.base):
        note(f"the key from {exam.api_key_env} goes to {options.base} without encryption")
    target = UrlTarget(options)
    target.find_model()
    note("thoughts are limited by --tokens alone: a server takes no other limits")
    yield Opened(target, asking.thinking, None, f"{target.facts.model} at {target.facts.backend}")


def _check_for_server(exam: ExamSettings, model: ModelSettings, steering: SteeringSettings) -> None:
    """What only an engine in this process can do is refused, not ignored."""
    given = [f"--{name.replace('_', '-')}" for name in _changed(model) if name != "model"]
    given += ["--dir-steering-…" for _ in _changed(steering)][:1]
    given += [f"--{name.replace('_', '-')}" for name in _changed(exam) if name.startswith(("soft_limit", "hard_limit"))]
    if given:
        name = "--ctx" if given[0] == "--context" else given[0]
        raise UsageError(f"{name} is for a model in this process, not for a server: leave it or --url out")


def _changed(settings: object) -> list[str]:
    """Fields that have other than their default values."""
    plain = type(settings)()
    return [field.name for field in fields(settings) if getattr(settings, field.name) != getattr(plain, field.name)]  # type: ignore[arg-type]
