"""Whether the measurements still go with the code: every sketch replays, and every row is one of its candidates.

`python -m benchmarks.yardstick.replay [--data FILE] [--sketches N]` prints a line for each task where one does not, and
exits with 1 then. All sketches take about three minutes; N of each task less.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import metasched as ms
from benchmarks.yardstick.data import DATA, TimedTask, read_tasks
from benchmarks.yardstick.samples import sketch_of
from metasched.errors import LanguageError, ScheduleError


def problems_of(task: TimedTask, sketches: int | None = None) -> Iterator[str]:
    """The problem of each sketch of a task that has measured candidates, of the first `sketches` of them."""
    try:
        program = task.program()
    except LanguageError as error:
        yield f"{_name_of(task)}: the program is refused: {error}"
        return
    numbers = list(dict.fromkeys(code.sketch for code in task.codes))
    for number in numbers[:sketches]:
        rows = [code.row for code in task.codes if code.sketch == number]
        reason = _reason(task, program, number, rows)
        if reason is not None:
            yield f"{_name_of(task)}, sketch {number}: {reason}"


def _reason(task: TimedTask, program: ms.Program, number: int, rows: Sequence[tuple[int, ...]]) -> str | None:
    try:
        sketch = sketch_of(task, number, program)
    except (ScheduleError, LanguageError) as error:
        return f"its trace does not replay: {error}"
    wrong = [row for row in rows if len(row) != len(sketch.columns)]
    if wrong:
        return f"it has {len(sketch.columns)} numbers left open, and row {list(wrong[0])} has {len(wrong[0])}"
    population = np.array(rows, np.int64).reshape(len(rows), -1)
    repaired = (sketch.repair(population) != population).any(axis=1)
    if repaired.any():
        return f"row {list(rows[int(repaired.argmax())])} is not among what its variables may be"
    illegal = ~sketch.mask(population)
    if illegal.any():
        return f"row {list(rows[int(illegal.argmax())])} breaks a constraint"
    return None


def _name_of(task: TimedTask) -> str:
    return f"{task.spec.name} ({task.pool})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Check that the sketches of the yardstick's measurements replay.")
    parser.add_argument("--data", type=Path, default=DATA, help="the file of measurements (default: %(default)s)")
    parser.add_argument("--sketches", type=int, metavar="N", help="of each task the first N (default: all)")
    args = parser.parse_args()
    tasks = list(read_tasks(args.data))
    wrong = 0
    for task in tasks:
        for line in problems_of(task, args.sketches):
            print(line, flush=True)
            wrong += 1
    print(f"{len(tasks)} pools of tasks, {wrong} sketches that do not replay")
    return 1 if wrong or not tasks else 0


if __name__ == "__main__":
    raise SystemExit(main())
