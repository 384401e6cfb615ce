"""The benchmarks are scripts in a folder of their own; here they are imported as modules."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
