"""`metasched tune`: find the fast schedule of a program on this machine, and keep what was measured."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from metasched.cli.arguments import (
    add_db,
    add_inputs,
    add_json,
    add_module,
    add_program,
    add_rules,
    add_search,
    add_threads,
    db_options,
    first_db,
    inputs_of,
    positive,
    program_of,
    seconds,
    timed_target,
)
from metasched.cli.command import Console, ending_by_signal
from metasched.cli.kernels import TRACE_HELP, space_in
from metasched.cli.progress_view import choose_view
from metasched.database import Record
from metasched.operators.named import trace_named
from metasched.report.progress_text import duration, failures
from metasched.search.report import TuningReport
from metasched.settings import DEFAULT_DATABASE
from metasched.support.messages import counted

if TYPE_CHECKING:
    from metasched.api import Kernel, Program


def add_arguments(parser: ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument(
        "--trials",
        type=positive,
        metavar="N",
        help="records to have in the end, failures and earlier runs included (default: 64, unless there is a --budget "
        "or --patience)",
    )
    parser.add_argument("--budget", type=seconds, metavar="SECONDS", help="how long it may take in all")
    parser.add_argument("--patience", type=positive, metavar="N", help="end after N trials without a gain beyond noise")
    add_db(parser, DEFAULT_DATABASE, "where to keep them")
    add_rules(parser)
    add_module(parser)
    parser.add_argument(
        "--trace", metavar="FILE", help=f"instead of --rules, {TRACE_HELP}; searches the decisions that it leaves open"
    )
    add_search(parser, "model")
    add_inputs(parser)
    add_threads(parser)
    add_json(parser)


def run(args: Namespace, console: Console) -> int:
    from metasched import api

    program = program_of(args)
    searched = space_in(args, trace_named(args.trace) if args.trace else None)
    with ending_by_signal() as ending:
        kernel = api.tune(
            program,
            trials=args.trials,
            db=args.db,
            space=searched,
            seed=args.seed,
            budget=args.budget,
            patience=args.patience,
            strategy=args.strategy,
            model=args.model,
            runner=args.runner,
            target=timed_target(args, console),
            allow=args.allow,
            knowledge=args.knowledge,
            inputs=inputs_of(args),
            progress=choose_view(console, args.json),
        )
    if args.json:
        console.print_json(result(program, kernel))
    else:
        console.print(summary(program, kernel))
        if kernel.report.interrupted:
            console.print("\nInterrupted: the same command goes on from here.")
        console.print(f"\n{_further_commands(args)}")
    return ending.status if kernel.report.interrupted else 0


def _further_commands(args: Namespace) -> str:
    """Where the records are, and the commands that run the best of them again and say why it came to that."""
    program = shlex.quote(args.program) + "".join(f" -D {key}={value}" for key, value in args.params)
    settings = f" --threads {args.threads}" if args.threads else ""
    settings += f" --allow {args.allow}" if args.allow is not None else ""
    settings += "".join(f" --input {name}={low},{high}" for name, (low, high) in args.inputs)
    again = f"metasched replay {program}{settings} {db_options(args.db)} --check --time"
    why = f"metasched report {program} {db_options(first_db(args.db))}"
    return f"Kept in {first_db(args.db)}. Again: {again}\nWhy: {why}"


def result(program: Program, kernel: Kernel[TuningReport]) -> dict[str, object]:
    """The last line of `--json`, from all records of the task, whichever run measured them."""
    report = kernel.report
    best = _seconds(report)
    return {
        "event": "result",
        "task": program.key,
        "best_ms": None if best is None else best * 1e3,
        "prologue_ms": _prologue_milliseconds(report),
        "gflops": None if best is None else program.work.gflops(best),
        "gops": None if best is None else program.work.gops(best),
        "trials": report.records,
        "measured": report.measured,
        "interrupted": report.interrupted,
        "since_gain": None if report.stagnation is None else report.stagnation.since,
        "stagnant": report.is_stagnant,
        "out_of_patience": report.out_of_patience,
        "failures": dict(report.failures),
        "raced": report.raced,
        "duplicates": report.duplicates,
        "is_guess": report.is_guess,
        "guess_ms": _milliseconds(report.guess),
        "default_guess_ms": _milliseconds(report.default),
        "gain_over_guess": None if report.over_guess is None else report.over_guess.gain,
        "noise": None if report.noise is None else report.noise.deviation,
        "noise_measurements": 0 if report.noise is None else report.noise.repeats,
        "origin": str(kernel.origin),
        "target": str(kernel.target),
        "trace": str(kernel.trace),
        "analysis": report.analysis.to_json(),
    }


def summary(program: Program, kernel: Kernel[TuningReport]) -> str:
    """The text at the end: the time, what failed, and the trace to paste back."""
    report = kernel.report
    best = _seconds(report)
    lines = []
    if best is not None:
        assert report.best is not None
        speed = ", ".join(filter(None, [duration(best), program.work.speed(best)]))
        new = "" if report.measured else ", none of them new"
        lines.append(f"{program.key}: {speed}{report.best.once} after {counted(report.records, 'trial')}{new}")
    lines += report.verdict()
    if report.failures:
        lines.append(failures(report.failures))
    return "\n".join([*lines, "", str(kernel.trace).rstrip()])


def _milliseconds(record: Record | None) -> float | None:
    return None if record is None or record.seconds is None else record.seconds * 1e3


def _prologue_milliseconds(report: TuningReport) -> float | None:
    seconds = None if report.best is None else report.best.prologue_seconds
    return None if seconds is None else seconds * 1e3


def _seconds(report: TuningReport) -> float | None:
    return None if report.best is None else report.best.seconds
