"""The experiments are scripts, not part of the package: make `benchmarks.theory` importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
