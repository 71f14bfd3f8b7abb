"""Random programs under random schedules, for as long as asked: `python -m tests.property.fuzz --budget 600 --seed 3`.

Workers run cases and print the first failures; each is shrunk to a program and a trace that `--replay FILE` runs
again, and that becomes a test when put into tests/regressions/. A worker that dies leaves its case in a journal.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "2")

from tests.property.fuzz.fuzz_case import TARGETS, Case, Failure, read_text, replayed_problem
from tests.property.fuzz.fuzz_shrink import shrink

SHRINK_SECONDS = 60.0
STRIDE = 1_000_000  # numbers of cases that a worker has to itself


def main() -> int:
    args = _arguments()
    if args.replay:
        return _replay(Path(args.replay))
    if args.worker is not None:
        return _work(args)
    return _supervise(args)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--budget", type=float, default=60, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0))))
    parser.add_argument("--failures", type=int, default=3, help="stop after so many")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--replay", metavar="FILE", help="run one program and trace again")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--journal", help=argparse.SUPPRESS)
    return parser.parse_args()


def _replay(path: Path) -> int:
    source, data = read_text(path.read_text(encoding="utf-8"))
    for target in dict.fromkeys(TARGETS):
        wrong = replayed_problem(source, data, target)
        if wrong is not None:
            print(f"{wrong[0]}: {wrong[1]}\non {target}")
            return 1
    print("nothing is wrong")
    return 0


# --- one process


def _work(args: argparse.Namespace) -> int:
    until = time.monotonic() + args.budget
    number, tried = args.first, 0
    journal = Path(args.journal)
    while time.monotonic() < until:
        journal.write_text(str(number), encoding="utf-8")
        count, failure = Case(args.seed, number).run()
        tried += count
        if failure is not None:
            small = _shrunk(failure)
            _tell({"failure": str(small), "kind": small.kind, "case": number})
        number += 1
        if number % 20 == 0:
            _tell({"tried": tried})
            tried = 0
    _tell({"tried": tried})
    return 0


def _shrunk(failure: Failure) -> Failure:
    for target in dict.fromkeys(TARGETS):
        wrong = replayed_problem(failure.source, failure.trace, target)
        if wrong is not None and wrong[0] == failure.kind:
            return shrink(failure, lambda s, t, on=target: replayed_problem(s, t, on), SHRINK_SECONDS)
    return failure


def _tell(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


# --- all of them


class _Worker:
    def __init__(self, args: argparse.Namespace, job: int, first: int, until: float, folder: Path) -> None:
        self.args, self.job, self.until, self.folder = args, job, until, folder
        self.journal = folder / f"case{job}"
        self.output = folder / f"out{job}"
        self.start(first)

    def start(self, first: int) -> None:
        left = max(0.0, self.until - time.monotonic())
        command = [sys.executable, "-m", "tests.property.fuzz", "--worker", str(self.job), "--first", str(first)]
        command += ["--budget", str(left), "--seed", str(self.args.seed), "--journal", str(self.journal)]
        self.output.write_text("", encoding="utf-8")
        self.journal.write_text(str(first), encoding="utf-8")  # It may die before its first case.
        self.read = 0
        with self.output.open("a") as out:
            self.process = subprocess.Popen(command, stdout=out)

    def messages(self) -> list[dict[str, Any]]:
        with self.output.open(encoding="utf-8") as file:
            file.seek(self.read)
            lines = file.readlines()
            whole = [line for line in lines if line.endswith("\n")]
            self.read += sum(len(line.encode()) for line in whole)
        return [json.loads(line) for line in whole]

    def died_at(self) -> int | None:
        """The case during which the process died, if it did."""
        code = self.process.poll()
        return int(self.journal.read_text(encoding="utf-8")) if code else None


def _supervise(args: argparse.Namespace) -> int:
    began = time.monotonic()
    tried, failures = 0, 0
    with tempfile.TemporaryDirectory() as name:
        firsts = [args.first + job * STRIDE for job in range(args.jobs)]
        workers = [_Worker(args, job, first, began + args.budget, Path(name)) for job, first in enumerate(firsts)]
        while failures < args.failures:
            time.sleep(0.5)
            running = any(w.process.poll() is None for w in workers)
            for worker in workers:
                for message in worker.messages():
                    tried += int(message.get("tried", 0))
                    if "failure" in message:
                        failures += 1
                        print(f"--- failure {failures}, case {message['case']}\n{message['failure']}\n", flush=True)
                died = worker.died_at()
                if died is not None:
                    failures += 1
                    code = worker.process.returncode
                    print(f"--- failure {failures}: the process ended with {code} in case {died}\n", flush=True)
                    worker.start(died + 1)
            if not running and all(w.process.poll() == 0 for w in workers):
                break
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
    seconds = time.monotonic() - began
    print(f"seed {args.seed}: {tried} cases in {seconds:.0f} s ({tried / seconds:.1f}/s), {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
