"""Records as columns."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import metasched as ms
from metasched.database.database_registry import open_database
from metasched.lang import parse_program
from metasched.report.table import RecordsError
from tests.support.measured import TEXT, records


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('table')}/t.db"
    with open_database(url) as database:
        database.add_all(records())
    return url


def test_a_row_has_what_a_record_says(url: str) -> None:
    table = ms.records(url)
    assert len(table) == 6
    assert list(table["task"]) == ["add[N=64]"] * 6
    assert list(table["number"]) == [1, 2, 3, 4, 5, 6]
    assert np.allclose(table["seconds"], [4e-6, 2e-6, 1e-6, 8e-6, np.nan, 4.5e-6], equal_nan=True)
    assert np.allclose(table["expected_seconds"], [2e-6, 2e-6, 2e-6, 1e-6, 3e-6, np.nan], equal_nan=True)
    assert list(table["failure"]) == [None] * 4 + ["run-timeout", None]
    assert list(table["batch"]) == [0, 0, 1, 1, 2, 2]
    assert list(table["role"]) == ["guess", *["candidate"] * 5]
    assert list(table["bound"]) == [False] * 3 + [True] + [False] * 2
    assert json.loads(table["decisions"][0]) == {"try(add)/how": '"plain"', "try(add)/lanes": "4"}
    assert {len(column) for column in table.columns.values()} == {6}
    wide = table.with_decisions()
    assert list(wide["try(add)/lanes"]) == ["4", "8", "16", "8", None, None]
    assert "decisions" not in wide.columns
    assert "try(add)" in table._repr_html_()
    cells = [html.unescape(cell) for cell in re.findall("<td[^>]*>([^<]*)</td>", table._repr_html_())]
    assert max(map(len, cells)) <= 63  # a line has room for all of a record
    assert "nan" not in cells
    assert "None" not in cells


def test_one_program_s_records_are_asked_for_by_name_or_by_itself(url: str) -> None:
    for program in ("add", "add[N=64]", parse_program(TEXT)):
        assert len(ms.records(url, program)) == 6
    with pytest.raises(ms.NoRecord, match="no record of `ad`\n  hint: did you mean `add`"):
        ms.records(url, "ad")
    with pytest.raises(ms.NoRecord, match="metasched tune` measures it"):
        ms.records(url, parse_program(TEXT, N=32))
    with pytest.raises(RecordsError, match="no column `x`\n  hint: there are task, "):
        ms.records(url)["x"]


def test_it_is_a_mapping_of_columns(url: str) -> None:
    table = ms.records(url)
    assert list(table) == list(table.keys()) == list(table.columns)
    assert dict(table)["seconds"] is table["seconds"]
    assert [id(column) for column in table.values()] == [id(table[name]) for name in table]
    assert [name for name, _ in table.items()] == list(table)
    assert table.get("seconds") is table["seconds"]
    assert table.get("second") is None
    assert "seconds" in table
    assert "second" not in table
    with pytest.raises(ms.MetaschedError, match="`program` is 3; it is a Program, the name of one, or None for all"):
        ms.records(url, 3)  # type: ignore[arg-type]


def test_no_record_is_an_empty_table(tmp_path: Path) -> None:
    with open_database(f"sqlite:///{tmp_path}/e.db"):
        pass
    table = ms.records(f"sqlite:///{tmp_path}/e.db")
    assert len(table) == len(table.with_decisions()) == 0
    assert repr(table).startswith("<table of 0 records: task, ")


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_packages_for_tables_are_asked_for_when_they_are_used(
    package: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ms.records(url)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RecordsError, match=f"which is not installed\n  hint: pip install {package}"):
        getattr(table, f"to_{package}")()
    module = ModuleType(package)
    module.DataFrame = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package, module)
    made = getattr(table, f"to_{package}")()
    assert list(made) == list(table.columns)
    assert list(made["failure"]) == list(table["failure"])
    if package == "polars":
        assert made["seconds"][4] is None
