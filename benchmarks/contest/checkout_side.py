"""A checkout's side of `benchmarks.against`, run by its path in a process that imports the checkout's own packages.

Its argument is JSON that says what to do, and it prints one line of JSON. It uses what most commits have: for a search
on the machine `ms.tune` and the records of a database; on tables the checkout's own `benchmarks.contest`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

SEARCH, PLAY = "search", "play"


def run_search(spec: Mapping[str, Any]) -> object:
    """The seconds of a search, and of each trial in order its trace, its time, and when it was recorded."""
    import metasched as ms
    from metasched.database import open_database

    program = ms.parse_program(spec["program"], **spec["params"])
    target = ms.Target.detect(threads=spec["threads"])
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/records.db"
        began, start = time.time(), time.perf_counter()
        report = ms.tune(
            program, trials=spec["trials"], db=url, seed=spec["seed"], target=target, progress=False
        ).report
        seconds = time.perf_counter() - start
        assert report.best is not None
        with open_database(url) as database:
            records = [record for record in database.records(report.best.task) if record.trial >= 0]
    records.sort(key=lambda record: record.trial)
    return [seconds, [[record.trace, record.seconds, record.timestamp - began] for record in records]]


def play_table(spec: Mapping[str, Any]) -> object:
    """Search a table with each seed: the course, the number of codes measured, and the seconds of each."""
    from benchmarks.contest.described import described
    from benchmarks.contest.playing import play
    from benchmarks.contest.stored import load

    # It has these names in every commit, wherever they are defined.
    session: Any = import_module("metasched.search.session")
    stored = load(spec["task"], Path(spec["tables"]))
    assert stored is not None, f"there is no table of {spec['task']} in {spec['tables']}"
    table = described(stored, None if spec["kept"] is None else Path(spec["kept"]))
    strategy, model = session.strategy_of(session.DEFAULT_STRATEGY), session.model_of(session.DEFAULT_MODEL)
    found = [play(table, strategy, model, seed, spec["trials"]) for seed in spec["seeds"]]
    return [[one.course, one.codes, one.seconds] for one in found]


_JOBS = {SEARCH: run_search, PLAY: play_table}


def main() -> None:
    spec = json.loads(sys.argv[1])
    print(json.dumps(_JOBS[spec["job"]](spec)))


if __name__ == "__main__":
    main()
