"""`metasched model`: models of a database's records, shown and judged; and a search by the file of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import metasched as ms
from metasched.cost.learning.trained import ModelError, read_model
from metasched.cost.model import CostModel
from metasched.cost.model_registry import model_of
from metasched.database.database_registry import open_database
from tests.support.command_line import run
from tests.support.recorded import add, dense, records_of

URL = "sqlite:///some.db"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path / "cache"))
    with open_database(URL) as database:
        for size in (32, 48):
            add(database, records_of(dense(N=size), 18))
        add(database, records_of(dense(N=80), 2))
    return tmp_path


def test_a_model_is_trained_shown_judged_and_searched_with(folder: Path) -> None:
    status, out, err = run("model", "train", "--db", URL, "--out", "mine.json")
    assert status == 0
    assert "mine.json: trained on 36 records of 2 tasks" in out
    assert "2 records left out: 2 as their task has fewer than 4 times" in err
    status, out, _ = run("model", "show", "mine.json", "--json")
    shown = json.loads(out)
    assert (status, shown["records"], shown["trees"]) == (0, 36, 600)
    assert shown["tasks"][0] == {"program": "dense[N=32, M=64, K=16]", "records": 18}
    assert sum(shown["importances"].values()) == pytest.approx(1)
    status, out, _ = run("model", "show")
    assert status == 0
    assert "238 tasks" in out
    assert "registers" in out
    status, _, err = run("model", "evaluate", "mine.json", "--db", URL)
    assert status == 2
    assert "mine.json was trained on all of these tasks" in err
    status, out, _ = run("model", "evaluate", "--db", URL, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["model"] for line in lines] == ["roofline", "shipped", "shipped, and the other tasks here"]
    assert all(0 <= line["pair_accuracy"] <= 1 and line["tasks"] == 2 for line in lines)
    assert isinstance(model_of("mine.json")(0), CostModel)
    assert read_model(folder / "mine.json").facts.records == 36
    kernel = ms.tune(dense(N=8, M=16), trials=1, db="sqlite:///:memory:", model="mine.json", progress=False)
    assert kernel.report.records == 1


@pytest.mark.usefixtures("folder")
def test_a_model_may_start_from_nothing_and_be_judged_on_others() -> None:
    with open_database("sqlite:///other.db") as database:
        add(database, records_of(dense(N=64), 18))
    assert run("model", "train", "--db", "sqlite:///other.db", "--out", "m.json", "--start", "nothing")[0] == 0
    status, out, _ = run("model", "evaluate", "m.json", "--db", URL, "--db", "sqlite:///other.db")
    assert status == 0
    assert "36 records of 2 tasks" in out
    assert out.splitlines()[-1].startswith("m.json")


@pytest.mark.usefixtures("folder")
def test_what_is_wrong_is_said() -> None:
    Path("bad.json").write_text("{}")
    for command in (("show",), ("evaluate", "--db", URL)):
        status, _, err = run("model", command[0], "bad.json", *command[1:])
        assert status == 2
        assert "bad.json: not a saved cost model" in err
    assert run("model", "show", "absent.json")[0] == 2
    status, _, err = run("model", "train", "--db", "sqlite:///absent.db")
    assert status == 2
    status, _, err = run("model", "train", "--db", URL, "--out", "nowhere/m.json")
    assert (status, "there is no folder" in err) == (2, True)
    with open_database("sqlite:///empty.db"):
        pass
    status, _, err = run("model", "train", "--db", "sqlite:///empty.db")
    assert (status, "no task with enough records" in err) == (2, True)
    with pytest.raises(ModelError, match=r"bad\.json"):
        model_of("bad.json")
    with pytest.raises(ms.MetaschedError, match=r"there is no file `absent\.json`(.|\n)*model train"):
        model_of("absent.json")
    with pytest.raises(ms.MetaschedError, match="there is no model `tree`"):
        model_of("tree")


def test_a_model_that_cannot_be_written_is_told_by_its_own_name(folder: Path) -> None:
    (folder / "taken").mkdir()
    status, _, err = run("model", "train", "--db", URL, "--start", "nothing", "--out", "taken")
    assert status == 2
    assert err.endswith("metasched model: taken: Is a directory\n")
