"""An operator: where its program is. Traces for it lie in `traces/` beside it."""

from __future__ import annotations

from pathlib import Path

toy_swish = Path(__file__).with_name("toy_swish.ms")
