"""Put the repository's root on the import path, for benchmarks that use fakes of the tests (`tests.support`)."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
