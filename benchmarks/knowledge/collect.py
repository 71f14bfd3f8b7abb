"""Tuning the sizes that knowledge is found for: `python -m benchmarks.knowledge.collect --db URL [--trials N]`.

It prints a line of JSON for each size, and may be stopped at any time: the same command goes on where it was, as what
was measured is in the database, and sizes with so many records are passed over.
`metasched db distill --db URL --out metasched/knowledge/cpu.knowledge` makes knowledge of it. Nothing else should run
on the machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence

import metasched as ms
from benchmarks.knowledge.sizes import AnySize, sizes
from metasched.database import TaskKey, open_database
from metasched.knowledge.anchor import anchor_of
from metasched.knowledge.library import shipped

_DATABASE = "sqlite:///knowledge.db"


def collect_sizes(chosen: Sequence[AnySize], db: str, trials: int, until: float) -> Iterator[dict[str, object]]:
    """Tune each size that has fewer records until a time of `time.monotonic`; yields what came of it."""
    target = ms.Target.detect()
    for size in chosen:
        if time.monotonic() >= until:
            return
        if _records_of(size.program(), target, db) >= trials:
            continue
        started = time.monotonic()
        try:
            report = ms.tune(size.program(), trials, db=db, progress=False).report
        except ms.NoRecord as error:  # not one candidate was valid; the next size may have some
            yield {"case": size.case, "failure": str(error)}
            continue
        guess_s = None if report.guess is None else report.guess.seconds
        yield {
            "case": size.case,
            "best_ms": None if report.best is None else report.seconds * 1e3,
            "guess_ms": None if guess_s is None else guess_s * 1e3,
            "measured": report.measured,
            "took_s": round(time.monotonic() - started, 1),
        }


def _records_of(program: ms.Program, target: ms.Target, db: str) -> int:
    with open_database(db) as database:
        return database.count(TaskKey.of(program, target))


def _ships(program: ms.Program, target: ms.Target) -> bool:
    """Whether something ships that was found for this very size, on CPUs of this kind."""
    nearest = shipped().nearest(anchor_of(program.func), target, 1)
    return bool(nearest) and nearest[0].distance == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.knowledge.collect", description=__doc__)
    parser.add_argument("--db", default=_DATABASE, metavar="URL", help="where results are kept (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=128, metavar="N", help="of each size (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="NAME,...", help="sizes of these operators")
    parser.add_argument("--hours", type=float, default=float("inf"), metavar="H", help="begin no size after so long")
    parser.add_argument("--new", action="store_true", help="pass over sizes that are in what ships, for this CPU")
    parser.add_argument("--list", action="store_true", help="only list the sizes")
    args = parser.parse_args()
    wanted = set(filter(None, args.only.split(",")))
    known = {size.operator for size in sizes()}
    if unknown := wanted - known:
        parser.error(f"no sizes of {', '.join(sorted(unknown))}; there are some of {', '.join(sorted(known))}")
    chosen = [size for size in sizes() if not wanted or size.operator in wanted]
    if args.new:
        chosen = [size for size in chosen if not _ships(size.program(), ms.Target.detect())]
    if args.list:
        print("\n".join(size.case for size in chosen))
        return 0
    for line in collect_sizes(chosen, args.db, args.trials, time.monotonic() + 3600 * args.hours):
        print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
