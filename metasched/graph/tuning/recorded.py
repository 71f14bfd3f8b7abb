"""What is recorded for the tasks of a network: their best times, and traces as choices.

Records of a search say what a kernel takes by itself. Where a network was tuned, there is one more a task, of the
kernel that was the faster in the network's own call (see `settling`): that is what runs. Reductions that were timed as
one kernel and as several (see `strip_turns`) have a record of each.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from metasched.database.base import Database
from metasched.database.record import Record, Role, TaskKey, Visit, VisitKind, code_version
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.ir import Graph
from metasched.graph.running.execution_plan import StepInfo
from metasched.graph.tasks import NetworkTask
from metasched.graph.tuning.settling import SettledTask
from metasched.graph.tuning.strip_turns import TimedGroup
from metasched.measure.surroundings import surroundings_in
from metasched.measure.timing import Surroundings
from metasched.permissions import Allowed
from metasched.report.progress_text import duration
from metasched.schedule.trace import Schedule
from metasched.search.records.other_names import applying_trace
from metasched.target import Target

_WAYS = (Surroundings.TOGETHER, Surroundings.APART)


def surroundings_of(graph: Graph, target: Target) -> Surroundings:
    """What a graph's kernels are timed in."""
    # By their types: the arrays of a network that was compiled would be made again.
    return surroundings_in(sum(graph.types[name].nbytes for name in graph.constants), target)


def best_records(
    database: Database, tasks: Sequence[NetworkTask], target: Target, surroundings: Surroundings, allowed: Allowed
) -> Mapping[str, Record]:
    """The best record of each task that a search has any of, by its key.

    Those that were timed as a network runs it come first; where there is none, those of another kind of timing do.
    """
    searched = [one for one in Surroundings if one.is_searched]
    order = sorted(searched, key=lambda one: (one is not surroundings, one is Surroundings.ALONE))
    found: dict[str, Record] = {}
    for task in tasks:
        keys = (TaskKey.of(task.program, target, kind) for kind in order)
        named = allowed.in_program(task.program.func)
        records = (database.best(key, named) for key in keys)
        best = next((record for record in records if record is not None), None)
        if best is not None:
            found[task.key] = best
    return found


def records_to_run(
    database: Database, tasks: Sequence[NetworkTask], target: Target, surroundings: Surroundings, allowed: Allowed
) -> Mapping[str, Record]:
    """As `best_records`, but what was settled in a network comes first: the last of it that this version has made."""
    found = dict(best_records(database, tasks, target, surroundings, allowed))
    for task in tasks:
        named = allowed.in_program(task.program.func)
        settled = database.records(_in_place_key(task, target))
        usable = [record for record in settled if record.is_current and record.permissions <= named]
        if usable:
            found[task.key] = usable[-1]
    return found


def add_settled(
    database: Database,
    settled: Sequence[SettledTask],
    steps: Sequence[StepInfo],
    tasks: Sequence[NetworkTask],
    target: Target,
) -> None:
    """Record what a network of these tasks and steps runs from now on."""
    by_key = {task.key: task for task in tasks}
    schedules = {step.task: step.schedule for step in steps}
    database.add_all(
        [
            _record_of(
                one, by_key[one.key], schedules[one.key], database.count(_in_place_key(by_key[one.key], target)), target
            )
            for one in settled
        ]
    )


def _in_place_key(task: NetworkTask, target: Target) -> TaskKey:
    return TaskKey.of(task.program, target, Surroundings.IN_PLACE)


def _record_of(settled: SettledTask, task: NetworkTask, schedule: str | None, number: int, target: Target) -> Record:
    return Record(
        task=_in_place_key(task, target),
        program=str(task.program),
        params=task.program.params,
        trace=str(Schedule(task.program).trace) if schedule is None else schedule,
        visits=(Visit((settled.seconds / task.weight,), VisitKind.TURN),),
        failure=None,
        raced=False,
        phases=(),
        timestamp=time.time(),
        seed=0,
        trial=number,
        role=Role.CANDIDATE if settled.is_tuned else Role.DEFAULT,
        code_version=code_version(),
    )


def add_groups(database: Database, groups: Sequence[TimedGroup], target: Target) -> None:
    """Record both times of groups of reductions."""
    found = []
    for group in groups:
        ways = {Surroundings.TOGETHER: group.together_s, Surroundings.APART: group.apart_s}
        found += [_record_of_way(group, way, seconds, target) for way, seconds in ways.items()]
    database.add_all(found)


def _record_of_way(group: TimedGroup, way: Surroundings, seconds: float, target: Target) -> Record:
    return Record(
        task=TaskKey.of(group.program, target, way),
        program=str(group.program),
        params=group.program.params,
        trace=str(Schedule(group.program).trace),
        visits=(Visit((seconds / group.runs,), VisitKind.TURN),),
        failure=None,
        raced=False,
        phases=(),
        timestamp=time.time(),
        seed=0,
        trial=0,
        role=Role.DEFAULT,
        code_version=code_version(),
    )


def recorded_ways(database: Database, target: Target) -> dict[str, bool]:
    """Groups of reductions that this version has timed on a target, by the structural hashes of their joined programs:
    whether they are faster together.
    """
    found: dict[str, dict[str, float]] = {}
    for key in database.tasks():
        if (key.target, key.threads) != (str(target), target.threads) or key.surroundings not in _WAYS:
            continue
        times = [record.seconds for record in database.records(key) if record.is_current]
        if times and times[-1] is not None:
            found.setdefault(key.program_hash, {})[key.surroundings] = times[-1]
    both = {key: times for key, times in found.items() if len(times) == len(_WAYS)}
    return {key: times[Surroundings.TOGETHER] < times[Surroundings.APART] for key, times in both.items()}


def choices_of(records: Mapping[str, Record], tasks: Sequence[NetworkTask]) -> dict[str, Choice]:
    """The traces of records as choices, by the tasks' keys.

    One of an older version that no longer applies is left out, so that its task is guessed; the log says why.
    """
    found: dict[str, Choice] = {}
    for task in tasks:
        record = records.get(task.key)
        if record is not None and record.seconds is not None:
            trace = applying_trace(record, task.program)
            if trace is None:
                continue
            guessed = ", the guess" if record.role.is_guess else ""
            found[task.key] = Choice(trace, ScheduleOrigin.TUNED, f"{duration(record.seconds)}{guessed}")
    return found
