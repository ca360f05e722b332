"""A coordinator as a program: for each line on standard input, `PROMPT ANSWER` in tokens, a digest of the answer's
logits on standard output. For tests in which it has to be on another host than they are."""

import hashlib
import sys
from pathlib import Path

from cluster.parts import tokens
from cluster.test_failures import answer
from whitedwarf.cli.loading import open_model
from whitedwarf.cluster.pipeline import ClusterModel
from whitedwarf.config import ClusterSettings, ModelSettings
from whitedwarf.errors import ClusterError


def digest(model, num_prompt, num_answer):
    return hashlib.sha256(answer(model, tokens(num_prompt), num_answer)).hexdigest()


def main():
    place, keys, patience_s, wait_s, bits = sys.argv[1:]
    cluster = ClusterSettings(
        cluster=place,
        cluster_keys=Path(keys),
        layers="0:1",
        cluster_patience=float(patience_s),
        cluster_wait=float(wait_s),
        cluster_bits=int(bits),
    )
    loaded = open_model(ModelSettings(backend="cpu", threads=1, cluster=cluster))
    assert isinstance(loaded.transformer, ClusterModel)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            print(digest(loaded.transformer, *map(int, line.split())), flush=True)
        except ClusterError as error:
            print(f"error: {error}", flush=True)
    loaded.coordinator.close()


if __name__ == "__main__":
    main()
