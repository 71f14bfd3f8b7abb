"""Knowledge from what the yardstick has measured: `python -m benchmarks.knowledge.of_yardstick --out FILE`.

Of each task it takes the fastest of the random candidates and of those that a search found, as `metasched db distill`
does of records. Tasks that guesses are judged by are left out. What the file has already is kept where it is faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.knowledge.sizes import judged_programs
from benchmarks.yardstick.data import DATA, TimedTask, read
from benchmarks.yardstick.samples import sketch_of
from metasched.knowledge.distill import described, merged
from metasched.knowledge.entries import Entry, print_entries
from metasched.knowledge.library import read_file
from metasched.target import Target

# The fastest of each task that are looked at: more than are kept, as most share a structure.
_MOST = 8


def entries_of_task(task: TimedTask) -> Iterator[Entry]:
    """What the fastest candidates of a task decide."""
    program, target = task.program(), Target.parse(task.target)
    for code in sorted(task.codes, key=lambda c: max(c.first_s, c.second_s))[:_MOST]:
        trace = sketch_of(task, code.sketch, program).trace_of(code.row)
        entry = described(program, trace, target, max(code.first_s, code.second_s))
        if entry is not None:
            yield entry


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.knowledge.of_yardstick", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    args = parser.parse_args()
    judged = judged_programs()
    tasks = (task for task in read(args.data) if task.program().structural_hash() not in judged)
    found = [entry for task in tasks for entry in entries_of_task(task)]
    entries = merged(read_file(args.out) if args.out.exists() else (), found)
    args.out.write_text(print_entries(entries), encoding="utf-8")
    print(f"{len(entries)} entries in {args.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
