"""`whitedwarf logits`: the logits after each of given token ids, float32 (positions, vocabulary) in a .npy file.

For comparing with other implementations; needs no tokenizer.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.loading import open_model
from whitedwarf.cli.npy_file import NpyRows
from whitedwarf.cli.output_file import check_output
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.scoring import check_fits, logit_chunks, read_ids
from whitedwarf.cli.steering_flags import steered, steering_wish
from whitedwarf.cli.termination import tidy_termination
from whitedwarf.config import DEFAULT_MODEL, DEFAULT_STEERING, POSITIVE, ModelSettings, SteeringSettings


def command(
    *,
    ids_file: Path,
    out: Path,
    chunk: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    last: bool = False,
    steering: SteeringSettings = DEFAULT_STEERING,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Write the logits after each of given token ids.

    Parameters
    ----------
    ids_file
        JSON file with a list of token ids.
    out
        The .npy file: float32, one row per id, one column per token. It appears when it is complete.
    chunk
        Ids per forward pass. Default: the prefill chunk.
    last
        Only the row after the last id.
    """
    wish = steering_wish(steering)
    ids = read_ids(ids_file)
    check_output(out, [ids_file])
    loaded = steered(open_model(model), wish)
    check_output(out, loaded.gguf.paths)
    check_fits(len(ids), loaded.context_length)
    progress = ProgressLine()
    num_rows = 1 if last else len(ids)
    with tidy_termination(), NpyRows(out, num_rows, loaded.transformer.config.vocab_size) as rows:
        for done, logits in logit_chunks(loaded.paced, ids, chunk or loaded.chunk_tokens, only_last=last):
            rows.write(logits)
            progress.show(f"{done}/{len(ids)} tokens ({100 * done / len(ids):.1f}%)")
    progress.clear()
