"""`whitedwarf recipe parse`: vectors files of answers, as we read and tell them."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.recipe_answer import shown_answer
from whitedwarf.cli.recipe_dialects import dialect_of
from whitedwarf.cli.recipe_lines import Line, Result, answer_lines
from whitedwarf.cli.recipe_policy import PolicyName, named_policy
from whitedwarf.cli.recipe_request import converted_or_refusal
from whitedwarf.prompt.tokenizer_json import PublishedTokenizers


def command(*, tokenizer: Annotated[Path, Parameter(name="--tokenizer")], policy: PolicyName = "official") -> None:
    """Parse the answers of a vectors file and tell them in their protocols.

    Reads JSON lines from standard input: parse files of shared/vectors/recipe. Writes a line for each: its id, and the
    events, push by push, under the names that the files have.

    Parameters
    ----------
    tokenizer
        DeepSeek V4's tokenizer.json.
    policy
        How requests and answers are read: the official library's way, or our server's.
    """
    tokenizers = PublishedTokenizers(tokenizer)
    reading = named_policy(policy)

    def parsed(line: Line) -> Result:
        dialect = dialect_of(line)
        converted = converted_or_refusal(line, dialect, reading)
        if isinstance(converted, dict):
            return {"expect": converted}
        return {"expect": shown_answer(line, converted, dialect, tokenizers.of(converted.version))}

    answer_lines(parsed)
