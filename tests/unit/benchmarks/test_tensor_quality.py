"""The whole benchmark, on a file of two small tasks that are judged, and stand for those that only teach, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import tensor_quality
from benchmarks.registry import Options


def test_tasks_of_other_families_teach_and_half_as_many_own_records(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_quality, "DATA", data)
    options = Options(threads=1, data=data, models=("roofline", "trees"), seeds=(0,), kept=tmp_path / "kept")
    *lines, last = tensor_quality.run(options)
    assert [line["case"] for line in lines] == [
        "second measurement; families never seen; space",
        "roofline; families never seen; space",
        "roofline; 32 own records as well; space",
        "trees; families never seen; space",
        "trees; 32 own records as well; space",
    ]
    assert all(line["tasks"] == 2 for line in lines)
    assert str(last["table"]).count("| trees |") == 2
