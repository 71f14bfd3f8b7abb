from __future__ import annotations

import io
import json
from pathlib import Path

from metasched.cli.command import Console
from metasched.cli.main import main
from metasched.database import Record, TaskKey, open_database

TASK = TaskKey("0" * 64, "cpu=generic", 2, "metasched 0")


def record(trial: int, times: tuple[float, ...], failure: str | None) -> Record:
    return Record(
        task=TASK,
        program="program dense(...)",
        params=(("N", 64),),
        trace="trace 1 of dense[N=64]:\n",
        times=times,
        failure=failure,
        raced=False,
        phases=(),
        timestamp=1.0e9 + trial,
        seed=0,
        trial=trial,
    )


def stats(tmp_path: Path, *arguments: str) -> str:
    url = f"sqlite:///{tmp_path}/d.db"
    with open_database(url) as database:
        database.add(record(0, (2e-3, 3e-3, 4e-3), None))
        database.add(record(1, (), "run-timeout"))
    out = io.StringIO()
    assert main(["db", "stats", "--db", url, *arguments], Console(out, io.StringIO())) == 0
    return out.getvalue()


def test_stats_are_a_table(tmp_path: Path) -> None:
    text = stats(tmp_path)
    assert "2 records" in text
    assert "dense[N=64]" in text
    assert "3.00 ms" in text
    assert "1 failed (1 run-timeout)" in text
    assert "cpu=generic" in text


def test_stats_for_machines(tmp_path: Path) -> None:
    data = json.loads(stats(tmp_path, "--json"))
    assert data["program"] == "dense"
    assert data["params"] == {"N": 64}
    assert data["best_ms"] == 3.0
    assert data["failures"] == {"run-timeout": 1}


def test_an_empty_database_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.db"
    open_database(url).close()
    out = io.StringIO()
    assert main(["db", "stats", "--db", url], Console(out, io.StringIO())) == 0
    assert "holds no records yet" in out.getvalue()
