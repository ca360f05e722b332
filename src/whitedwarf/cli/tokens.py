"""`whitedwarf tokens`: how a text is cut into tokens, exactly as written; needs only the metadata of the model file.

The format is the original's --dump-tokens (spec/model.md 8.4).
"""

import json
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.loading import open_file, open_tokenizer
from whitedwarf.cli.prompt_text import required_prompt
from whitedwarf.config import DEFAULT_FILE, DEFAULT_SOURCE, FileSettings, SourceSettings


def command(
    *,
    source: SourceSettings = DEFAULT_SOURCE,
    file: FileSettings = DEFAULT_FILE,
    plain: bool = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Show the tokens of a text: a line with all ids, then each id and its vocabulary string.

    The text is taken as an already rendered chat: control tokens that it spells are recognised, nothing is added.

    Parameters
    ----------
    plain
        Take the text as ordinary text, in which nothing is a control token.
    as_json
        One JSON object with ids and vocabulary strings.
    """
    text = required_prompt(source)
    with open_file(file) as gguf:
        tokenizer = open_tokenizer(gguf)
    ids = tokenizer.encode(text) if plain else tokenizer.encode_rendered(text)
    spellings = [tokenizer.vocabulary.tokens[token_id] for token_id in ids]
    if as_json:
        print(json.dumps({"ids": ids, "tokens": spellings}, ensure_ascii=False))
        return
    print(json.dumps(ids))
    for token_id, spelling in zip(ids, spellings, strict=True):
        print(f"{token_id:>6}  {spelling}")
