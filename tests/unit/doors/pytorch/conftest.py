"""What tests of the door to PyTorch have in common."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def without_watched_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch makes bars of progress of some operators, which a thread would watch for as long as the process runs."""
    if find_spec("torch") and find_spec("tqdm"):
        monkeypatch.setattr(importlib.import_module("tqdm").tqdm, "monitor_interval", 0)
