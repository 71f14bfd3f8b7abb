"""The package that keeps records in PostgreSQL, installed: found by its entry point, imported when named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from metasched.database import open_database
from metasched.errors import MetaschedError
from tests.support.database_records import sound
from tests.support.installing import install
from tests.support.postgres import PACKAGE, postgres_server, postgres_url  # noqa: F401 - fixtures

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs metasched where the package is installed."""
    site = str(install(PACKAGE, tmp_path))

    def metasched(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "metasched", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": site},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return metasched


def test_databases_are_merged_into_it_and_merging_again_changes_nothing(
    run: Run,
    tmp_path: Path,
    postgres_url: str,  # noqa: F811
) -> None:
    for n, name in enumerate(("a", "b")):
        with open_database(f"sqlite:///{tmp_path}/{name}.db") as database:
            database.add_all([sound(1.0, 0), sound(0.5 / (n + 1), n + 1)])
    merge = ["db", "merge", "sqlite:///a.db", "sqlite:///b.db", "--db", postgres_url]
    assert "3 records would be added" in run(*merge, "--dry-run")
    assert "3 records added" in run(*merge)
    assert "0 records added" in run(*merge)
    (line,) = run("db", "stats", "--db", postgres_url, "--json").splitlines()
    assert json.loads(line)["best_ms"] == 250.0
    assert "3 records added" in run("db", "merge", postgres_url, "--db", "sqlite:///c.db")


def test_without_it_the_message_says_what_to_install() -> None:
    with pytest.raises(MetaschedError, match="pip install metasched-postgres"):
        open_database("postgresql://host/tuning")
