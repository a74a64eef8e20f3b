"""Add benchmarks/, which is not installed, to the import path."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
