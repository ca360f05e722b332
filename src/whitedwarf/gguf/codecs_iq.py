"""IQ2_XXS: eight weights share one of 256 grid points and 7 sign bits; 2.06 bits a weight (model.md 5.1, 5.3).

The decoder, which is exact, and the tables; `encode_iq2.py` has the encoder.
"""

import numpy as np
from numpy.typing import NDArray

from whitedwarf.gguf.codecs_plain import halves_to_floats

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_GRID_HEX = """
0000 0002 0005 0008 000a 0011 0014 0020 0022 0028 002a 0041 0044 0050 0058 0061
0064 0080 0082 008a 00a2 0101 0104 0110 0115 0140 0184 0198 0200 0202 0222 0282
0401 0404 0410 0421 0424 0440 0442 0448 0460 0481 0484 0490 04a4 0500 0502 0508
0520 0546 0569 0580 0591 0609 0610 0640 0684 06a4 0800 0805 0808 0814 0828 0841
0844 0850 0852 0888 0904 0940 0a02 0a14 1001 1004 1010 1021 1040 1060 1084 1090
1095 1100 1108 1120 1150 115a 1180 1224 1245 1400 1408 1420 1425 1449 1480 1518
1562 1600 1616 1801 1804 1810 1840 1881 1900 1905 19a0 1a51 2000 2002 200a 2044
2061 2080 2082 2129 2148 2200 2202 2401 2404 2410 2440 2456 2500 2541 2564 2690
2808 2820 2894 2a44 4001 4004 4010 4018 4021 4024 4040 4048 4056 4060 4081 4084
4090 4100 4120 4161 4180 4185 4201 4210 4248 4256 4268 4400 4408 4420 4480 4499
4512 4524 4600 4801 4804 4810 4840 4845 4900 4958 4961 4982 4a45 4a90 5000 5008
5011 5019 5020 5080 5088 5104 5142 51a4 5291 5490 5492 550a 5601 5654 5800 5811
5819 5864 5940 5a08 6004 6010 6040 6068 6100 6155 6218 6260 6400 6405 6510 6512
6584 6842 8000 8002 800a 8041 8082 8104 8118 8140 8211 8401 8404 8410 8415 8440
8460 8500 8546 8594 8609 8640 8660 8802 8904 8a11 9004 9010 9024 9040 90a1 9116
9180 9245 9400 9422 9444 9551 9881 9920 a002 a050 a085 a109 a200 a418 a850 a904
"""


def _grid_codes() -> Bytes:
    """(256, 8) of 0, 1, 2: two bits a weight, lowest first."""
    words = np.array([int(word, 16) for word in _GRID_HEX.split()], np.uint16)
    return ((words[:, None] >> np.arange(0, 16, 2, dtype=np.uint16)) & 3).astype(np.uint8)


def _sign_rows() -> Floats:
    """(128, 8) of ±1: seven stored bits, the eighth makes the number of negatives even."""
    bits = (np.arange(128)[:, None] >> np.arange(7)) & 1
    parity = bits.sum(axis=1, keepdims=True) & 1
    return (1 - 2 * np.concatenate([bits, parity], axis=1)).astype(np.float32)


GRID_CODES = _grid_codes()
_GRID = np.array([8, 25, 43], np.float32)[GRID_CODES]
_SIGNS = _sign_rows()


def decode_iq2_xxs(blocks: Bytes) -> Floats:
    words = np.ascontiguousarray(blocks[:, 2:]).view(np.uint32).reshape(-1, 8, 2)
    grid = _GRID[np.ascontiguousarray(words[:, :, 0]).view(np.uint8)].reshape(-1, 8, 4, 8)
    signs = _SIGNS[(words[:, :, 1:] >> np.arange(0, 28, 7, dtype=np.uint32)) & 127]  # (blocks, 8, 4, 8)
    half_steps = np.float32(0.5) + (words[:, :, 1] >> np.uint32(28)).astype(np.float32)
    scales = halves_to_floats(blocks[:, :2]) * half_steps * np.float32(0.25)
    values: Floats = (scales[:, :, None, None] * grid * signs).reshape(-1, 256)
    return values
