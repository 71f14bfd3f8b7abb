"""`metasched report`: a task of a database, told as text, as JSON and as a page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from metasched.cli.main import WRONG_INPUT
from metasched.database.database_registry import open_database
from metasched.target import Target
from tests.support import command_line
from tests.support.measured import TEXT, records


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('report')}/t.db"
    here = Target.detect(1)
    with open_database(url) as database:
        database.add_all([replace(r, task=replace(r.task, target=str(here), threads=1)) for r in records()])
        database.add_all([replace(r, timestamp=5.0, code_version="older") for r in records()[:1]])
    return url


def run(*arguments: str) -> tuple[int, str, str]:
    return command_line.run("report", *arguments)


def test_without_a_task_they_are_listed(url: str) -> None:
    status, out, _ = run("--db", url)
    assert status == 0
    assert "add[N=64]" in out
    assert "records" in out
    status, out, _ = run("--db", url, "--json")
    assert status == 0
    assert [json.loads(line)["threads"] for line in out.splitlines()] == [1, 2]
    status, _, err = run("--db", url, "--profile")
    assert status == WRONG_INPUT
    assert "say which task: FILE.ms" in err
    status, _, err = run("--db", url, "-D", "N=4")
    assert (status, "-D sets a parameter of a program; say which" in err) == (WRONG_INPUT, True)
    both, out, _ = run("--db", url, "--db", "sqlite:///:memory:")
    assert (both, "add[N=64]" in out) == (0, True)


@pytest.mark.parametrize("named", ["add", "add[N=64]", "file"])
def test_a_task_is_named_by_its_file_or_as_it_is_listed(named: str, url: str, tmp_path: Path) -> None:
    if named == "file":
        (tmp_path / "add.ms").write_text(TEXT)
        named = str(tmp_path / "add.ms")
    status, out, err = run(named, "--db", url)
    assert (status, err) == (0, "this is the one that was measured last; add[N=64] with 2 threads is there, too\n")
    assert out.startswith("add[N=64]: 6 candidates measured\nbest: 1.00 us")
    assert 'by try(add)/how: "plain" 1.00 us (4)' in out


def test_what_is_not_there_is_told(url: str) -> None:
    status, _, err = run("sub", "--db", url)
    assert status == WRONG_INPUT
    assert "has no record of `sub`" in err
    status, _, err = run("op:softmax", "-D", "N=3", "--db", url)
    assert status == WRONG_INPUT


def test_it_is_written_as_json_with_the_profile_of_the_best_kernel(url: str, tmp_path: Path) -> None:
    status, out, err = run("add", "-D", "N=64", "--db", url, "--json", "--profile", "--out", f"{tmp_path}/r.html")
    assert status == 0
    data = json.loads(out)
    assert data["best_s"] == 1e-6
    assert data["profile"]["parts"][0]["blocks"] == ["add"]
    assert f"written to {tmp_path}/r.html" in err
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
