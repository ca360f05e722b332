"""What scripts/gpu_check.py runs on a machine with a GPU: one part to a file, each a sequence of cases.

The package is found beside this folder, whether or not it is installed.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
