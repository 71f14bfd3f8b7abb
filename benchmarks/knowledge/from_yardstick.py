"""What was timed of programs with tensor instructions, as knowledge: `python -m benchmarks.knowledge.from_yardstick`.

The best codes of each task of `benchmarks/yardstick/tensor_times.jsonl` go into the file of knowledge, which keeps what
is faster there. Traces that experts wrote decide nothing that could be carried over.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.knowledge.from_networks import SHIPPED, entries_not_judged
from benchmarks.yardstick.data import TENSOR_DATA, TimedTask, read_tasks
from benchmarks.yardstick.samples import sketch_of
from metasched.knowledge.distill import MOST_STRUCTURES, describe_trace, merge_entries
from metasched.knowledge.entries import Entry, print_entries
from metasched.knowledge.library import read_file
from metasched.target import Target

# The fastest codes of a task: they have the best structures and some more, of which the nearly best are kept.
_MOST_CODES = 4 * MOST_STRUCTURES


def entries_of_task(task: TimedTask) -> Iterator[Entry]:
    """The entries of the fastest codes of a task."""
    program, target = task.program(), Target.parse(task.target)
    for code in sorted(task.codes, key=lambda c: min(c.first_s, c.second_s))[:_MOST_CODES]:
        trace = sketch_of(task, code.sketch, program).trace_of(code.row)
        entry = describe_trace(program, trace, target, min(code.first_s, code.second_s))
        if entry is not None:
            yield entry


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.knowledge.from_yardstick", description=__doc__)
    parser.add_argument("--data", type=Path, default=TENSOR_DATA, metavar="FILE", help="times (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=SHIPPED, metavar="FILE", help="default: %(default)s")
    args = parser.parse_args()
    known = list(read_file(args.out)) if args.out.exists() else []
    timed = [entry for task in read_tasks(args.data) for entry in entries_of_task(task)]
    known = merge_entries(known, entries_not_judged(timed))
    args.out.write_text(print_entries(known), encoding="utf-8")
    print(f"{len(known)} entries in {args.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
