"""The client of the system tests, for the fault tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "system"))
sys.path.insert(0, str(Path(__file__).parent))
