"""What was found for sizes of its operator: where the file is."""

from __future__ import annotations

from pathlib import Path

toy_knowledge = Path(__file__).with_name("toy.knowledge")
