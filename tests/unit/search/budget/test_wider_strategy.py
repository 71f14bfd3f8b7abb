"""A search that has stagnated draws half of each batch from all structures, and goes on so when it is resumed."""

from __future__ import annotations

from pathlib import Path

from metasched.database.base import Database
from metasched.database.database_registry import open_database
from metasched.database.record import Role
from metasched.search.proposal import Guesses
from metasched.search.strategies.random import strategy
from tests.support.toy_search import ToyRunner, ToySpace, key, tuned

BEST = "[0, 12, 12, 12, 12]"
GUESSES = Guesses(BEST, BEST)


def roles(database: Database) -> list[Role]:
    return [record.role for record in database.records(key().task)]


def test_a_stagnant_search_looks_elsewhere(tmp_path: Path) -> None:
    with open_database(f"sqlite:///{tmp_path}/t.db") as database:
        report = tuned(database, 136, ToyRunner(ToySpace()), guesses=GUESSES, make=strategy)
        found = roles(database)
    first = found.index(Role.ELSEWHERE)
    assert first > 100
    assert found[first - 1 :] == [Role.CANDIDATE, Role.ELSEWHERE] * ((136 - first + 1) // 2)
    assert f"{found.count(Role.ELSEWHERE)} drawn elsewhere" in str(report)


def test_what_was_begun_elsewhere_goes_on_there(tmp_path: Path) -> None:
    runners = [ToyRunner(ToySpace()) for _ in range(3)]
    with open_database(f"sqlite:///{tmp_path}/one.db") as database:
        tuned(database, 130, runners[0], guesses=GUESSES, make=strategy)
    with open_database(f"sqlite:///{tmp_path}/two.db") as database:
        tuned(database, 114, runners[1], guesses=GUESSES, make=strategy)
        tuned(database, 130, runners[2], guesses=GUESSES, make=strategy)
    assert runners[0].traces == runners[1].traces + runners[2].traces
