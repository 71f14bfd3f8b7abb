"""Makes the helpers of the schedules' tests importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "schedule"))
