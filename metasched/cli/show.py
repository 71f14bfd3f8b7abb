"""`metasched show`: a program, its space, a schedule of it, and the code it becomes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metasched.backend.kernel import Origin
from metasched.backend.lir_printer import print_kernel
from metasched.backend.lower import lower
from metasched.backend.target import Target
from metasched.cli.arguments import UsageError, add_module, add_program, add_threads, program_of
from metasched.cli.command import Command, Console
from metasched.cli.kernels import add_repair, kernel_of, note_warnings, policy_of, space_in, trace_in
from metasched.errors import BuildError
from metasched.ir.nodes import Func
from metasched.ir.printer import print_func
from metasched.schedule.handlers import Policy, Repairs
from metasched.schedule.trace import Trace

if TYPE_CHECKING:
    from metasched.api import Kernel, Program
    from metasched.search.guess import Guess

FAILED = 1


def add_arguments(parser: ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument(
        "--trace", metavar="FILE", help="a trace of the program, or op:NAME.VARIANT; alone, shows the scheduled program"
    )
    add_repair(parser)
    parser.add_argument("--db", metavar="URL", help="take the best trace from a database")
    parser.add_argument("--rules", metavar="SPEC", help="the rules of --space; see `metasched rules`")
    add_module(parser)
    add_threads(parser)
    what = parser.add_mutually_exclusive_group()
    for name, summary in (
        ("program", "the program, in the canonical form (what is shown by default)"),
        ("space", "its search space: per block, which rule applied, or why not"),
        ("schedule", "the scheduled program, of --trace, --db, or the best guess (the default with --trace or --db)"),
        ("loops", "the plain loops it is lowered to"),
        ("llvm", "the LLVM code of that schedule"),
        ("asm", "the machine code of that schedule"),
        ("python", "the trace as a Python function that takes the same steps"),
        ("json", "the trace as JSON"),
        ("problems", "everything that is wrong with --trace; exit status 1 if anything is"),
    ):
        what.add_argument(f"--{name}", dest="what", action="store_const", const=name, help=summary)
    what.add_argument("--diff", metavar="FILE", help="how the trace in this file differs from the other")


def run(args: Namespace, console: Console) -> int:
    if args.trace and args.db:
        raise UsageError("--trace and --db both say where the schedule comes from; give one of them")
    policy = policy_of(args)
    program = program_of(args)
    if policy is Policy.REPAIR:
        console.note(str(Repairs(trace_in(args.trace).apply_to(program, policy).repairs)))
    if args.what == "problems":
        return _problems(program, args, console)
    what = args.what or ("diff" if args.diff else None) or ("schedule" if args.trace or args.db else "program")
    if what in CODE:
        kernel = kernel_of(program, args.trace, args.db, Target.detect(args.threads), policy)
        if kernel.origin is Origin.GUESS:
            console.note(str(kernel.report))
        console.print(CODE[what](kernel).rstrip("\n"))
        note_warnings(kernel.warnings, console)
        return 0
    shown = _Shown(program, args, _guess(program, args) if what in SCHEDULED else None)
    if shown.guess is not None:
        console.note(str(shown.guess))
    console.print(VIEWS[what](shown).rstrip("\n"))
    if what == "loops" or (what == "schedule" and (args.trace or args.db)):
        note_warnings(_lowering_warnings(shown), console)
    return 0


@dataclass(frozen=True)
class _Shown:
    """What is shown; `guess` where the schedule is one."""

    program: Program
    args: Namespace
    guess: Guess | None


def _guess(program: Program, args: Namespace) -> Guess | None:
    """The best guess, where nothing else says what the schedule is."""
    if args.trace or args.db:
        return None
    from metasched.search.guess import guess

    return guess(program, Target.detect(args.threads))


def _lowering_warnings(shown: _Shown) -> tuple[str, ...]:
    """What the backend says of the schedule before it makes any code."""
    args = shown.args
    if args.trace and not args.repair and trace_in(args.trace).holes:
        return ()
    try:
        return lower(_scheduled(shown), Target.detect(args.threads)).warnings
    except BuildError as error:
        return (f"this schedule does not compile: {error}",)


def _program(shown: _Shown) -> str:
    return str(shown.program)


def _space(shown: _Shown) -> str:
    from metasched import api

    return str(api.space(shown.program, space_in(shown.args)).explain())


def _schedule(shown: _Shown) -> str:
    """The scheduled program; of a trace with holes, with their numbers free."""
    if shown.args.trace and not shown.args.repair:
        trace = trace_in(shown.args.trace)
        if trace.holes:
            return _sketches(shown.program, trace)
    return print_func(_scheduled(shown))


def _sketches(program: Program, trace: Trace) -> str:
    from metasched import api

    return "\n".join(str(sketch) for sketch in api.space(program, trace))


def _loops(shown: _Shown) -> str:
    return print_kernel(lower(_scheduled(shown), Target.detect(shown.args.threads)))


def _scheduled(shown: _Shown) -> Func:
    # The schedule is shown even where the backend could not compile it.
    return _trace(shown).apply_to(shown.program, policy_of(shown.args)).func


def _problems(program: Program, args: Namespace, console: Console) -> int:
    if not args.trace:
        raise UsageError("--problems is about a trace; say which with --trace FILE")
    found = trace_in(args.trace).problems(program)
    console.print("\n".join(str(problem) for problem in found) or "nothing is wrong with the trace")
    return FAILED if found else 0


def _trace(shown: _Shown) -> Trace:
    """The trace that is shown: of --trace (mended under --repair), --db, or the best guess."""
    program, args = shown.program, shown.args
    if shown.guess is not None:
        return shown.guess.trace
    if not args.trace:
        found: Trace = kernel_of(program, None, args.db, Target.detect(args.threads)).trace
        return found
    trace = trace_in(args.trace)
    return trace.apply_to(program, Policy.REPAIR).trace if args.repair else trace


def _python(shown: _Shown) -> str:
    return _trace(shown).as_python(shown.program)


def _json(shown: _Shown) -> str:
    return _trace(shown).as_json()


def _diff(shown: _Shown) -> str:
    return str(_trace(shown).diff(trace_in(shown.args.diff)))


VIEWS: Mapping[str, Callable[[_Shown], str]] = {
    "program": _program,
    "space": _space,
    "schedule": _schedule,
    "loops": _loops,
    "python": _python,
    "json": _json,
    "diff": _diff,
}

# Views of a schedule; without a trace or a database, of the best guess.
SCHEDULED = frozenset({"schedule", "loops", "python", "json", "diff"})

# Views of the compiled kernel.
CODE: Mapping[str, Callable[[Kernel], str]] = {"llvm": lambda kernel: kernel.llvm, "asm": lambda kernel: kernel.asm}

COMMAND = Command("show", "A program, its space, a schedule, or the code.", add_arguments, run)
