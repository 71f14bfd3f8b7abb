"""`metasched show`: a program, its space, a schedule of it, and the code it becomes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from metasched.cli.arguments import UsageError, add_allow, add_db, add_module, add_program, add_threads, program_of
from metasched.cli.command import Console
from metasched.cli.kernels import TRACE_HELP, add_repair, kernel_of, note_warnings, policy_of, space_in
from metasched.errors import BuildError
from metasched.ir.nodes import Func
from metasched.ir.printer import print_func
from metasched.operators.named import trace_named
from metasched.permissions import Allowed
from metasched.schedule.handlers import Policy, Repairs
from metasched.schedule.trace import Trace
from metasched.support.data_classes import dataclass
from metasched.target import Target

if TYPE_CHECKING:
    from metasched.api import Kernel, Program
    from metasched.search.guesses.guess import Guess

FAILED = 1

# The views that an option is nothing to: the holes of a trace are a space.
_WITHOUT: Mapping[str, tuple[str, ...]] = {"trace": ("program",), "db": ("program", "space")}


def add_arguments(parser: ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument("--trace", metavar="FILE", help=f"{TRACE_HELP}; alone, shows the scheduled program")
    add_repair(parser)
    add_db(parser, None, "take the best trace from a database")
    parser.add_argument("--rules", metavar="SPEC", help="the rules of --space; see `metasched rules`")
    add_module(parser)
    add_allow(parser)
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


@dataclass(frozen=True)
class Subject:
    """The arguments: a program, and the trace of --trace, which is read once, as it may be a pipe."""

    program: Program
    given: Trace | None
    args: Namespace
    guess: Guess | None = None  # where the schedule that is shown is one

    @property
    def policy(self) -> Policy:
        return policy_of(self.args)

    @property
    def target(self) -> Target:
        return Target.detect(self.args.threads)

    @property
    def asked_target(self) -> Target | None:
        """The target that the arguments describe; None if they do not: it is then detected only if a rule asks."""
        return self.target if self.args.threads else None

    def trace(self) -> Trace:
        """The trace that is shown: of --trace (mended under --repair), --db, or the best guess."""
        if self.guess is not None:
            return self.guess.trace
        if self.given is None:
            found: Trace = kernel_of(self.program, None, self.args.db, self.target, allow=self.args.allow).trace
            return found
        repairs = self.policy is Policy.REPAIR
        return self.given.apply_to(self.program, Policy.REPAIR).trace if repairs else self.given

    def open_trace(self) -> Trace | None:
        """The given trace, if it has holes and is not to be repaired."""
        opened = self.given is not None and self.policy is Policy.STRICT and self.given.holes
        return self.given if opened else None

    def scheduled_func(self) -> Func:
        # The schedule is shown even where the compiler refuses it.
        return self.trace().apply_to(self.program, self.policy).func


def run(args: Namespace, console: Console) -> int:
    _require_consistent(args)
    policy = policy_of(args)
    program = program_of(args)
    given = trace_named(args.trace) if args.trace else None
    if given is not None and policy is Policy.REPAIR:
        console.note(str(Repairs(given.apply_to(program, policy).repairs)))
    if args.what == "problems":
        return _problems(program, given, console)
    what = args.what or ("diff" if args.diff else None) or ("schedule" if args.trace or args.db else "program")
    if what in CODE:
        kernel = kernel_of(program, given, args.db, Target.detect(args.threads), policy, args.allow)
        _print_code(CODE[what], kernel, console)
        return 0
    subject = Subject(program, given, args, _guess(program, args) if what in SCHEDULE_VIEWS else None)
    if subject.guess is not None:
        console.note(str(subject.guess))
    console.print(VIEWS[what](subject).rstrip("\n"))
    if what == "loops" or (what == "schedule" and (args.trace or args.db)):
        note_warnings(_lowering_warnings(subject), console)
    return 0


def _require_consistent(args: Namespace) -> None:
    """Raises UsageError for options of which one says what the other denies, or has no part in what is shown."""
    if args.trace and args.db:
        raise UsageError("--trace and --db both say where the schedule comes from", hint="give one of them")
    for option in ("rules", "module"):
        if getattr(args, option) and args.what != "space":
            raise UsageError(f"--{option} is about the space of the program", hint="add --space, or leave it out")
    for option in ("trace", "db"):
        if getattr(args, option) and args.what in _WITHOUT[option]:
            raise UsageError(
                f"--{option} says where the schedule comes from, and --{args.what} shows none",
                hint=f"leave out one of them; without --{args.what}, the schedule is shown",
            )


def _print_code(code_of: Callable[[Kernel], str], kernel: Kernel, console: Console) -> None:
    from metasched.runtime.kernel import Origin

    if kernel.origin is Origin.GUESS:
        console.note(str(kernel.report))
    console.print(code_of(kernel).rstrip("\n"))
    note_warnings(kernel.warnings, console)


def _guess(program: Program, args: Namespace) -> Guess | None:
    """The best guess, where nothing else says what the schedule is."""
    if args.trace or args.db:
        return None
    from metasched.calibration.store import core_of
    from metasched.search.guesses.guess import guess

    target = Target.detect(args.threads)
    return guess(program, target, core=core_of(target), allowed=Allowed.of(args.allow))


def _lowering_warnings(subject: Subject) -> tuple[str, ...]:
    """The compiler's warnings about the schedule, found without making code."""
    from metasched.compiler.lower import lower

    if subject.open_trace() is not None:
        return ()
    try:
        return lower(subject.scheduled_func(), subject.target).warnings
    except BuildError as error:
        return (f"this schedule does not compile: {error}",)


def _space(subject: Subject) -> str:
    from metasched import api

    searched = space_in(subject.args, subject.given)
    return str(api.space(subject.program, searched, target=subject.asked_target, allow=subject.args.allow).explain())


def _schedule(subject: Subject) -> str:
    """The scheduled program; of a trace with holes, with their numbers free."""
    opened = subject.open_trace()
    return print_func(subject.scheduled_func()) if opened is None else _sketches(subject.program, opened)


def _sketches(program: Program, trace: Trace) -> str:
    from metasched import api

    return "\n".join(str(sketch) for sketch in api.space(program, trace))


def _loops(subject: Subject) -> str:
    from metasched.compiler.lir_printer import print_kernel
    from metasched.compiler.lower import lower

    return print_kernel(lower(subject.scheduled_func(), subject.target))


def _problems(program: Program, given: Trace | None, console: Console) -> int:
    if given is None:
        raise UsageError("--problems is about a trace; say which with --trace FILE")
    found = given.problems(program)
    console.print("\n".join(str(problem) for problem in found) or "nothing is wrong with the trace")
    return FAILED if found else 0


def _python(subject: Subject) -> str:
    return subject.trace().as_python(subject.program)


def _diff(subject: Subject) -> str:
    return str(subject.trace().diff(trace_named(subject.args.diff)))


VIEWS: Mapping[str, Callable[[Subject], str]] = {
    "program": lambda subject: str(subject.program),
    "space": _space,
    "schedule": _schedule,
    "loops": _loops,
    "python": _python,
    "json": lambda subject: subject.trace().as_json(),
    "diff": _diff,
}

# Views of a schedule; without a trace or a database, of the best guess.
SCHEDULE_VIEWS = frozenset({"schedule", "loops", "python", "json", "diff"})

# Views of the compiled kernel.
CODE: Mapping[str, Callable[[Kernel], str]] = {"llvm": lambda kernel: kernel.llvm, "asm": lambda kernel: kernel.asm}
