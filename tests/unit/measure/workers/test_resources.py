"""What the system says of memory; its errors are those of `tests/e2e/test_lacks.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from metasched.measure.workers import resources


@pytest.mark.parametrize(
    ("text", "count"), [("nr_free_pages 9\noom_kill 3\nswap_ra 1\n", 3), ("nr_free_pages 9\n", None), (None, None)]
)
def test_who_was_ended_for_want_of_memory_is_counted(
    text: str | None, count: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = tmp_path / "vmstat"
    if text is not None:
        counters.write_text(text)
    monkeypatch.setattr(resources, "_COUNTERS", counters)
    assert resources.count_memory_kills() == count
