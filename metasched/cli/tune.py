"""`metasched tune`: find the fast schedule of a program on this machine, and keep what was measured."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from metasched.backend.target import Target
from metasched.cli.arguments import (
    DEFAULT_DATABASE,
    add_json,
    add_module,
    add_program,
    add_threads,
    positive,
    program_of,
)
from metasched.cli.command import Command, Console
from metasched.cli.kernels import space_in
from metasched.cli.progress_view import choose_view
from metasched.cli.render import duration, failures
from metasched.search.progress import Progress
from metasched.search.strategies import StrategyName

if TYPE_CHECKING:
    from metasched.api import Kernel


def add_arguments(parser: ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument(
        "--trials",
        type=positive,
        default=64,
        metavar="N",
        help="records to have in the end, failures and earlier runs included (default: %(default)s)",
    )
    parser.add_argument(
        "--db", default=DEFAULT_DATABASE, metavar="URL", help="where to keep them; default: %(default)s"
    )
    parser.add_argument("--rules", metavar="SPEC", help="such as cpu,-inline,+my.py:my_rule; see `metasched rules`")
    add_module(parser)
    parser.add_argument(
        "--trace", metavar="FILE", help="instead of --rules: a trace; search only the decisions that it leaves open"
    )
    names = [strategy.value for strategy in StrategyName]
    parser.add_argument("--strategy", choices=names, default=names[0], help="how to search (default: %(default)s)")
    add_threads(parser)
    parser.add_argument("--seed", type=int, default=0, help="the same seed and times give the same candidates")
    add_json(parser)


def run(args: Namespace, console: Console) -> int:
    from metasched import api

    program = program_of(args)
    searched = space_in(args)
    view = choose_view(console, args.json)
    last: Progress | None = None

    def watch(progress: Progress) -> None:
        nonlocal last
        last = progress
        view(progress)

    view.begin(program.key)
    try:
        kernel = api.tune(
            program,
            trials=args.trials,
            db=args.db,
            space=searched,
            seed=args.seed,
            strategy=args.strategy,
            target=Target.detect(args.threads),
            progress=watch,
        )
    finally:
        view.close()
    if args.json:
        console.print_json(result(program.key, kernel, last))
    else:
        console.print(summary(program.key, kernel, last))
        if kernel.report.interrupted:
            console.print("\nInterrupted: the same command goes on from here.")
        settings = "".join(f" -D {key}={value}" for key, value in args.params)
        settings += f" --threads {args.threads}" if args.threads else ""
        console.print(
            f"\nKept in {args.db}. Again: metasched replay {args.program}{settings} --db {args.db} --check --time"
        )
    return 0


def result(task: str, kernel: Kernel, last: Progress | None) -> dict[str, object]:
    """The last line of `--json`."""
    return {
        "event": "result",
        "task": task,
        "best_ms": None if last is None or last.best_s is None else last.best_s * 1e3,
        "gflops": None if last is None else last.gflops,
        "trials": 0 if last is None else last.trials,
        "interrupted": kernel.report.interrupted,
        "failures": {} if last is None else dict(last.failures),
        "origin": str(kernel.origin),
        "target": str(kernel.target),
        "trace": str(kernel.trace),
    }


def summary(task: str, kernel: Kernel, last: Progress | None) -> str:
    """What a person wants to know at the end: the time, what failed, and the trace to paste back."""
    lines = []
    if last is not None and last.best_s is not None:
        speed = "" if last.gflops is None else f", {last.gflops:.1f} GFLOP/s"
        lines.append(f"{task}: {duration(last.best_s)}{speed} after {last.trials} trials")
        if last.failures:
            lines.append(failures(last.failures))
    return "\n".join([*lines, "", str(kernel.trace).rstrip()])


COMMAND = Command("tune", "Find the fast schedule of a program on this machine.", add_arguments, run)
