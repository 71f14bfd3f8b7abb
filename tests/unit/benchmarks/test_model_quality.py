"""The whole benchmark, on a file of two small tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import metasched as ms
from benchmarks.model_quality import chosen_contestants, run, table_of_files
from benchmarks.registry import Options


def test_a_line_for_each_verdict_and_a_table(data: Path, tmp_path: Path) -> None:
    options = Options(threads=1, data=data, models=("random", "roofline"), kept=tmp_path / "kept")
    *lines, last = run(options)
    assert [line["case"] for line in lines] == [
        "second measurement; families never seen; space",
        "random; families never seen; space",
        "random; 64 own records as well; space",
        "roofline; families never seen; space",
        "roofline; 64 own records as well; space",
    ]
    assert [line["seeds"] for line in lines] == [1, 5, 5, 1, 5]
    assert all(line["tasks"] == 2 for line in lines)
    assert lines[0]["pair_accuracy"] == 1.0
    assert last["case"] == "table"
    assert str(last["table"]).count("| roofline |") == 2
    assert [line.get("seeds") for line in run(replace(options, seeds=(3, 1)))] == [1, 2, 2, 1, 2, None]
    assert [*run(options)] == [*lines, last], "equal features, seeds and times give equal figures"
    for n, part in enumerate((lines[:3], [*lines[3:], last])):
        (tmp_path / f"{n}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in part))
    assert table_of_files([tmp_path / "0.jsonl", tmp_path / "1.jsonl"]) == last["table"]
    with pytest.raises(ms.MetaschedError, match="no line of a model"):
        table_of_files([])


def test_who_is_unknown_is_named() -> None:
    with pytest.raises(ValueError, match="no model `tree`: there are random, roofline, "):
        chosen_contestants(["roofline", "tree"])
    assert [one.name for one in chosen_contestants(["roofline"])] == ["roofline"]
    assert len(chosen_contestants([])) > 2


def test_everyone_can_be_named_in_a_list() -> None:
    assert not [one.name for one in chosen_contestants([]) if "," in one.name]


def test_without_measurements_it_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"benchmarks\.yardstick\.collect makes them"):
        next(iter(run(Options(data=tmp_path / "none.jsonl"))))
