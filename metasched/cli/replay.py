"""`metasched replay`: run a schedule that was found before, check its results, and time it again."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from metasched.cli.arguments import (
    UsageError,
    add_allow,
    add_db,
    add_inputs,
    add_json,
    add_program,
    add_threads,
    inputs_of,
    program_of,
    timed_target,
)
from metasched.cli.command import Console
from metasched.cli.kernels import TRACE_HELP, add_repair, kernel_of, note_warnings, policy_of
from metasched.database.record import once_text
from metasched.ir.work import Work
from metasched.measure.checking.inputs import Inputs
from metasched.measure.records import Measurement
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import TimingPlan
from metasched.operators.named import trace_named
from metasched.report.profile import CallProfile
from metasched.report.progress_text import duration
from metasched.report.winner import profile_on_random_data
from metasched.schedule.handlers import Policy, Repairs
from metasched.schedule.trace_files import form_of
from metasched.support.data_classes import dataclass

if TYPE_CHECKING:
    from metasched.api import Kernel, Program

FAILED = 1
_PLAN = TimingPlan(samples=16, budget_s=0.3, apart_s=0.5)


def add_arguments(parser: ArgumentParser) -> None:
    add_program(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    add_db(source, None, "the best measured trace of a database")
    source.add_argument("--trace", metavar="FILE", help=TRACE_HELP)
    add_repair(parser)
    parser.add_argument(
        "--out", metavar="FILE", help="write the trace there, as JSON or Python where the name ends in .json or .py"
    )
    parser.add_argument(
        "--check", action="store_true", help="compare its results with the reference; exit status 1 if they are wrong"
    )
    parser.add_argument("--time", action="store_true", help="time it again, on this machine (checked first)")
    parser.add_argument(
        "--profile",
        action="store_true",
        help="run it on random data, and say where the time of a call goes; not where --check or --time failed",
    )
    add_inputs(parser)
    add_allow(parser)
    add_threads(parser)
    add_json(parser)


@dataclass(frozen=True)
class ReplayResult:
    """What replaying gave; times in seconds per call, and `work` is that of one. `prologue_seconds` is spent once."""

    task: str
    trace: str
    target: str
    work: Work
    failure: str | None
    seconds: float | None
    samples: int
    prologue_seconds: float | None = None
    repairs: Repairs | None = None  # None when none were to be made
    profile: CallProfile | None = None  # None where none was asked for, and of a kernel that failed


def run(args: Namespace, console: Console) -> int:
    inputs = inputs_of(args)
    if inputs and not (args.check or args.time):
        raise UsageError("--input says what to check and time on", hint="add --check or --time")
    program = program_of(args)
    policy = policy_of(args)
    given = trace_named(args.trace) if args.trace else None
    kernel = kernel_of(program, given, args.db, timed_target(args, console), policy, args.allow)
    measured = measure(program, kernel, inputs) if args.check or args.time else None
    has_failed = measured is not None and measured.failure is not None
    outcome = ReplayResult(
        task=program.key,
        trace=str(kernel.trace),
        target=str(kernel.target),
        work=program.work,
        failure=None if measured is None or measured.failure is None else _failure_text(measured),
        seconds=measured.seconds if measured is not None and args.time else None,
        samples=len(measured.times) if measured is not None and args.time else 0,
        prologue_seconds=measured.prologue_seconds if measured is not None and args.time else None,
        repairs=kernel.report if isinstance(kernel.report, Repairs) and policy is Policy.REPAIR else None,
        profile=profile_on_random_data(kernel) if args.profile and not has_failed else None,
    )
    if args.out:
        Path(args.out).write_text(form_of(args.out).write(kernel.trace, program), encoding="utf-8")
    if args.json:
        console.print_json(as_json(outcome, measured is not None))
    else:
        # The trace alone goes to standard output, so that it reads back from there.
        if not args.out:
            console.print(outcome.trace.rstrip("\n"))
        console.note(verdict(outcome, measured is not None))
    note_warnings(kernel.warnings, console)
    return FAILED if outcome.failure else 0


def measure(program: Program, kernel: Kernel, inputs: Inputs | None = None) -> Measurement:
    """Check and time a kernel as a search does: in another process, on two kinds of data, of `inputs` where given."""
    settings = RunnerSettings(threads=kernel.target.threads, builders=1, plan=_PLAN)
    with LocalRunner(settings, inputs) as runner:
        return runner.submit(program, str(kernel.trace), str(kernel.target)).result()


def _failure_text(measured: Measurement) -> str:
    assert measured.failure is not None
    return "\n".join(text for text in (measured.failure.reason, measured.failure.detail) if text)


def verdict(outcome: ReplayResult, checked: bool) -> str:
    """The result of checking and timing, as text."""
    lines = [] if outcome.repairs is None else [str(outcome.repairs)]
    if outcome.failure:
        lines.append(f"{outcome.task}: FAILED: {outcome.failure}")
    elif checked:
        lines.append(f"{outcome.task}: results agree with the reference")
    else:
        lines.append(f"{outcome.task}: replays and compiles (--check compares its results, --time times it)")
    if outcome.seconds is not None:
        time = f"{duration(outcome.seconds)} (median of {outcome.samples})"
        once = "" if outcome.prologue_seconds is None else f"and {once_text(outcome.prologue_seconds)}"
        lines.append(", ".join(filter(None, [time, outcome.work.speed(outcome.seconds), once])))
    if outcome.profile is not None:
        lines.append(str(outcome.profile))
    return "\n".join(lines)


def as_json(outcome: ReplayResult, checked: bool) -> dict[str, object]:
    return {
        "task": outcome.task,
        "checked": checked,
        "failure": outcome.failure,
        "ms": None if outcome.seconds is None else outcome.seconds * 1e3,
        "prologue_ms": None if outcome.prologue_seconds is None else outcome.prologue_seconds * 1e3,
        "samples": outcome.samples,
        "gflops": None if outcome.seconds is None else outcome.work.gflops(outcome.seconds),
        "gops": None if outcome.seconds is None else outcome.work.gops(outcome.seconds),
        "target": outcome.target,
        "trace": outcome.trace,
        "repairs": [str(repair) for repair in outcome.repairs or ()],
        "profile": None if outcome.profile is None else outcome.profile.to_json(),
    }
