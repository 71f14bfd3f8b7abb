"""How long a search takes to resume from many records: from opening the database to its next proposals.

The records are made up: distinct candidates of the space, with times that cost nothing. The space is made before, and
its time is reported separately, as it does not depend on records.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.registry import Options, Result
from benchmarks.tuning import program
from metasched.cost.learning.trained import read_shipped_model
from metasched.cost.model import CostModel
from metasched.database import Record, SearchKey, TaskKey, Visit, code_version, open_database
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.phases import Phase, Phases
from metasched.search.records.earlier_searches import EarlierSearches
from metasched.search.records.resume import resume
from metasched.search.records.task_records import TaskRecords
from metasched.search.rounds.population import draw, draw_arms
from metasched.search.strategies.evolutionary import Evolution
from metasched.search.task import Task
from metasched.support import collection
from metasched.target import Target

SIZES = (10_000, 100_000)
# Proposals in a batch of a search that is so far, and records that are added at once.
_BATCH = 32
_CHUNK = 5000
# Structures that they are of.
_STRUCTURES = 24


def run(options: Options) -> Iterator[Result]:
    start = time.perf_counter()
    task = Task(program("dense_relu"), "cpu", Target.detect(options.threads))
    arms = task.arms
    space_s = time.perf_counter() - start
    key = SearchKey(TaskKey.of(task.program, task.target), task.fingerprint, code_version())
    for size in SIZES[: 1 if options.quick else None]:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'many.db'}"
            with open_database(url) as database:
                for records in made_up(task, arms, key, size):
                    database.add_all(records)
            yield {"case": f"{size} records", "space_s": space_s, **time_resuming(task, arms, key, url)}


def time_resuming(task: Task, arms: SpaceArms, key: SearchKey, url: str) -> Result:
    """Seconds of each step, and in all."""
    marks = [time.perf_counter()]
    phases = Phases()
    with open_database(url) as database:
        known = TaskRecords(database, key, task.program)
        marks.append(time.perf_counter())
        strategy = Evolution(arms.arms, CostModel(0, read_shipped_model()), 0, phases=phases)
        with collection.pause_gc():
            resume(known, arms, strategy, EarlierSearches(known, arms, task.program), lambda _: strategy.look_ahead())
        marks.append(time.perf_counter())
        proposed = strategy.propose(_BATCH)
        marks.append(time.perf_counter())
    read, told, first = np.diff(marks)
    return {
        "records": known.trial_count,
        "read_s": read,
        "told_s": told,
        "first_proposal_s": first,
        "of_it_training_s": phases.seconds()[Phase.MODEL.value],
        "resume_s": marks[-1] - marks[0],
        "proposed": len(proposed),
    }


def made_up(task: Task, arms: SpaceArms, key: SearchKey, size: int) -> Iterator[list[Record]]:
    """So many distinct candidates with times, over some structures alike."""
    rng = np.random.default_rng(0)
    numbers = draw_arms(rng, arms, _STRUCTURES)
    text, share = str(task.program), -(-size // len(numbers))
    made: list[Record] = []
    number = 0
    for arm in (arms[n] for n in numbers):
        for row in draw(rng, arm, share):
            if number == size:
                break
            seconds = float(rng.lognormal(-6.0, 0.5))
            visit = Visit((seconds, 1.01 * seconds, 1.02 * seconds))
            made.append(
                Record(
                    task=key.task,
                    program=text,
                    params=task.program.params,
                    trace=str(arm.sketch.trace_of(row)),
                    visits=(visit, visit, visit),
                    failure=None,
                    raced=False,
                    phases=(("build", 0.04), ("run", 0.3)),
                    timestamp=1.7e9 + number,
                    seed=0,
                    trial=number,
                    batch=number // _BATCH,
                    place=number % _BATCH,
                    code=f"{number:032x}",
                    space=key.space,
                    code_version=key.code_version,
                )
            )
            number += 1
            if len(made) == _CHUNK:
                yield made
                made = []
    yield made
