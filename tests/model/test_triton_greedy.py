"""500 greedy tokens of nano on Triton kernels. By itself, because an interpreted token takes a second.

Most are of sequences side by side: enough rows for the tensor cores' way.
"""

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")
pytest.importorskip("triton", reason="triton is not installed: pip install 'whitedwarf[cuda]'")

from model.triton_models import decode, nano_models, tokens


@pytest.mark.slow
def test_500_greedy_tokens_of_nano_are_those_of_the_cpu_backend() -> None:
    models = nano_models()
    decode(models, [tokens(1 + i % 3, seed=i) for i in range(32)], 15)
    decode(models, [tokens(4, seed=50)], 20)
