"""`whitedwarf steer build`: a direction for each layer, from two sets of prompts (spec/product.md E.5)."""

import json
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter

from whitedwarf.cli.loading import LoadedModel, note, open_model
from whitedwarf.cli.output_file import check_output, write_bytes, write_text
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.scoring import check_fits
from whitedwarf.cli.steer_prompts import SteerPrompt, read_prompts
from whitedwarf.config import DEFAULT_MODEL, ModelSettings
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.errors import UsageError
from whitedwarf.model.base import Span
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.model.steering import Directions
from whitedwarf.model.steering_build import Activations, build_directions

FORMAT = "ds4-directional-steering-v1"
DEFAULT_SYSTEM = "You are a helpful assistant."
LOGGED_EVERY = 10  # prompts, where no terminal writes lines over
Component = Literal["ffn_out", "attn_out"]
Example = Literal["verbosity"]


def command(
    *,
    out: Path,
    good: Annotated[Path | None, Parameter(name=("--good", "--good-file"))] = None,
    bad: Annotated[Path | None, Parameter(name=("--bad", "--bad-file"))] = None,
    example: Example | None = None,
    component: Component = "ffn_out",
    system: Annotated[str, Parameter(name=("--system", "-sys"), allow_leading_hyphen=True)] = DEFAULT_SYSTEM,
    think: Annotated[bool, Parameter(negative=())] = False,
    pair_normalize: Annotated[bool, Parameter(negative=())] = False,
    no_orthogonalize: bool = False,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Build a direction for each layer: from prompts that show a behaviour and others that do not.

    With --dir-steering-file, positive scales then remove what the good prompts have and the bad ones lack, negative
    scales amplify it.

    Parameters
    ----------
    out
        The .f32 file with the directions; what they were made from goes into a .json file beside it.
    good
        Prompts that show the behaviour: one on each line, # for comments; in a .jsonl file a JSON text, or an object
        with prompt and system, on each line.
    bad
        As many that do not; the longer of both sets is cut.
    example
        Prompts that come with whitedwarf, instead of --good and --bad. verbosity: 100 questions that ask for long
        answers, and the same that ask for short ones.
    component
        Whose output is looked at: that of feed-forward layers, or of attention.
    system
        System text of prompts without one of their own; "" for none.
    think
        Prompts that make the model think before it answers.
    pair_normalize
        Pairs of prompts count the same, however far apart they are.
    no_orthogonalize
        Keep what the direction shares with the mean of the bad prompts, which is left out otherwise.
    """
    sources = _sources(good, bad, example)
    files = _outputs(out, sources)
    sets = read_prompts(sources[0]), read_prompts(sources[1])
    count = min(map(len, sets))
    if len(sets[0]) != len(sets[1]):
        note(f"{len(sets[0])} good and {len(sets[1])} bad prompts: the first {count} of each are used")
    loaded = open_model(model)
    _outputs(out, loaded.gguf.paths)
    prompts = _prompt_ids([*sets[0][:count], *sets[1][:count]], loaded, system, is_thinking=think)
    found = _activations(loaded, prompts, component)
    directions = build_directions(
        found[:count], found[count:], is_pair_normalised=pair_normalize, is_orthogonal=not no_orthogonalize
    )
    facts: dict[str, object] = {
        "format": FORMAT,
        "component": component,
        "thinking": think,
        "pair_normalize": pair_normalize,
        "orthogonalize_control_mean": not no_orthogonalize,
        "good_file": str(sources[0]),
        "bad_file": str(sources[1]),
        "pairs": count,
        "system": system,
        "model": loaded.gguf.paths[0].name,
    }
    _write(files, directions, facts)
    print(f"{files[0]}: {len(directions)} directions of {directions.shape[1]}, from {count} pairs of prompts")


def _sources(good: Path | None, bad: Path | None, example: Example | None) -> tuple[Path, Path]:
    """The files of both sets."""
    if example is not None and good is None and bad is None:
        return example_files(example)
    if example is None and good is not None and bad is not None:
        return good, bad
    raise UsageError("expected --good FILE and --bad FILE, or --example verbosity instead of both")


def example_files(example: Example) -> tuple[Path, Path]:
    """The good and the bad prompts of an example that the package brings."""
    folder = resources.files("whitedwarf").joinpath("data", "steering", example)
    names = {"verbosity": ("long.txt", "short.txt")}[example]
    return Path(str(folder / names[0])), Path(str(folder / names[1]))


def _outputs(out: Path, sources: tuple[Path, ...]) -> tuple[Path, Path]:
    """Both files, whichever of them was named."""
    if out.suffix not in (".f32", ".json"):
        raise UsageError(f"--out {out}: expected a name that ends in .f32")
    files = out.with_suffix(".f32"), out.with_suffix(".json")
    for file in files:
        check_output(file, sources)
    return files


def _prompt_ids(prompts: list[SteerPrompt], loaded: LoadedModel, system: str, *, is_thinking: bool) -> list[list[int]]:
    tokenizer = loaded.tokenizer()
    thinking = Thinking.HIGH if is_thinking else Thinking.NONE
    found = [prompt.ids(tokenizer, system, thinking) for prompt in prompts]
    check_fits(max(map(len, found)), loaded.context_length)
    return found


def _activations(loaded: LoadedModel, prompts: list[list[int]], component: Component) -> Activations:
    progress = ProgressLine()
    found = []
    for number, ids in enumerate(prompts, 1):
        if progress.is_terminal or number % LOGGED_EVERY == 0:
            progress.show(f"prompt {number}/{len(prompts)}")
        found.append(last_row(loaded.paced, ids, component, loaded.chunk_tokens))
    progress.clear()
    return np.array(found)


def last_row(model: DeepSeek, ids: list[int], component: Component, chunk_tokens: int) -> np.ndarray:
    """What that part of each layer gives for the last token (layers, D) float64."""
    last: dict[int, np.ndarray] = {}

    def observe(name: str, layer: int, rows: np.ndarray) -> None:
        if name == component:
            last[layer] = rows[-1].astype(np.float64)

    state = model.new_state()
    for start in range(0, len(ids), chunk_tokens):
        model.forward([Span(state, np.array(ids[start : start + chunk_tokens], np.int32), "none")], observe)
    return np.array([last[layer] for layer in range(model.config.hp.num_layers)])


def _write(files: tuple[Path, Path], directions: Directions, facts: dict[str, object]) -> None:
    empty = [str(layer) for layer, direction in enumerate(directions) if not direction.any()]
    if empty:
        note(f"the prompts do not differ in layers {', '.join(empty)}: these will not be steered")
    vectors, sidecar = files
    write_bytes(vectors, directions.astype("<f4").tobytes())
    facts |= {
        "shape": list(directions.shape),
        "vector_file": vectors.name,
        "note": "y - scale * v * (v . y): positive scales remove the direction, negative ones amplify it",
    }
    write_text(sidecar, json.dumps(facts, indent=2) + "\n")
