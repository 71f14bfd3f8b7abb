"""Arguments that several commands share."""

from __future__ import annotations

import math
import os
import shlex
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace, _ActionsContainer
from typing import TYPE_CHECKING, Any

from metasched.cli.command import Console
from metasched.dtypes import DType
from metasched.errors import MetaschedError
from metasched.ir.program import Program
from metasched.ir.source import Setting
from metasched.operators.named import program_named
from metasched.permissions import Allowed, Permission
from metasched.search.seeds import seed_of
from metasched.support.messages import counted, with_hint
from metasched.target import Target

if TYPE_CHECKING:
    from metasched.database.database_registry import DatabaseURLs
    from metasched.space.text.modules import TextModule
    from metasched.space.text.rules import TextRule

_ELEMENT_TYPES = frozenset(dtype.value for dtype in DType)


class UsageError(MetaschedError):
    """Arguments that are well formed and do not go together."""


def add_program(parser: ArgumentParser) -> None:
    parser.add_argument(
        "program",
        metavar="FILE.ms[::NAME]",
        help="the program's file, and its name where the file holds several; or op:NAME, an operator of the library",
    )
    parser.add_argument(
        "-D",
        dest="params",
        metavar="K=V",
        type=setting,
        action="append",
        default=[],
        help="set a parameter of the program, such as -D N=256 or -D T=bf16; may be repeated",
    )


def program_of(args: Namespace) -> Program:
    """The program that `add_program`'s arguments name. Raises LanguageError, and OSError for a file not there."""
    return program_named(args.program, **params(args.params))


def add_module(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--module", metavar="FILE.ms[::NAME]", help="instead of --rules: a module in text for the whole program"
    )


def module_of(args: Namespace) -> TextModule | TextRule | None:
    """The module that `--module` names; None without. Raises LanguageError, and OSError for a file not there."""
    from metasched.space.text.rules import load_module

    return load_module(args.module) if args.module else None


def add_rules(parser: ArgumentParser) -> None:
    parser.add_argument("--rules", metavar="SPEC", help="such as cpu,-inline,+my.py:my_rule; see `metasched rules`")


def add_search(parser: ArgumentParser, model: str) -> None:
    """How a search goes: what is common to programs and networks. `model` is where the namespace has the cost model."""
    from metasched.cost.model_registry import DEFAULT_MODEL, MODELS
    from metasched.measure.executor_registry import DEFAULT_EXECUTOR, EXECUTORS
    from metasched.search.strategy_registry import DEFAULT_STRATEGY, STRATEGIES

    for option, dest, default, known, what in (
        ("--strategy", "strategy", DEFAULT_STRATEGY, STRATEGIES.names(), "how to search, a name or FILE.py:NAME"),
        ("--model", model, DEFAULT_MODEL, MODELS.names(), "what guides the search, a name or a file"),
        ("--runner", "runner", DEFAULT_EXECUTOR, EXECUTORS.names(), "where to measure, a name or a URL"),
    ):
        shown = f"{what}: {', '.join(known)} (default: %(default)s)"
        parser.add_argument(option, dest=dest, default=default, metavar="NAME", help=shown)
    add_allow(parser)
    parser.add_argument(
        "--knowledge",
        metavar="FILE",
        help='what was found for other sizes, as `metasched db distill` wrote it, or "none"; default: all installed',
    )
    parser.add_argument("--seed", type=seed, default=0, help="the same seed and times give the same candidates")


def add_inputs(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--input",
        dest="inputs",
        metavar="NAME=LOW,HIGH",
        type=input_range,
        action="append",
        default=[],
        help="the range of the numbers that an argument has in checks and timing, such as X=0.1,2; may be repeated "
        "(default: signed random numbers)",
    )


def inputs_of(args: Namespace) -> dict[str, tuple[float, float]] | None:
    """The ranges that `--input` gives, by name; None without. Raises UsageError for a name that is given twice."""
    out: dict[str, tuple[float, float]] = {}
    for name, span in args.inputs:
        if name in out:
            raise UsageError(f"--input {name} is given twice, as {out[name]} and as {span}")
        out[name] = span
    return out or None


def add_threads(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="threads of a parallel loop, at most (default: what Numba runs with)",
    )


def timed_target(args: Namespace, console: Console) -> Target:
    """This machine with the threads of `add_threads`; a note says where these are more than its cores."""
    target, cores = Target.detect(args.threads), len(os.sched_getaffinity(0))
    if target.threads > cores:
        console.note(
            f"warning: kernels run with {target.threads} threads on {counted(cores, 'core')} that this process may use"
            f"; --threads {cores} gives each a core"
        )
    return target


def add_allow(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--allow",
        type=allowed_permissions,
        metavar="NAMES",
        help=f"what results may differ by, between commas ({', '.join(p.value for p in Permission)}), or none; by "
        "default products of bf16 or f16 summed in f32 may take denormals for zero",
    )


class _DatabaseURLs(Action):
    """A URL, or a tuple of all of them where the option is given several times."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest)
        given = () if before is self.default else (before,) if isinstance(before, str) else before
        setattr(namespace, self.dest, (*given, values) if given else values)


def add_db(
    parser: _ActionsContainer,
    default: str | None,
    what: str,
    repeated: str = "the first is written, the others are only read",
) -> None:
    """`--db`, one URL or several; one only where `repeated`, what several are for, is empty."""
    shown = f"{what}; may be repeated: {repeated}" if repeated else what
    shown += "" if default is None else " (default: %(default)s)"
    parser.add_argument(
        "--db", action=_DatabaseURLs if repeated else "store", default=default, metavar="URL", help=shown
    )


def db_options(db: DatabaseURLs) -> str:
    """`--db` as it was given, but for passwords, for a command to repeat."""
    from metasched.database.shown_url import shown_url

    return " ".join(f"--db {shlex.quote(shown_url(url))}" for url in ([db] if isinstance(db, str) else db))


def first_db(db: DatabaseURLs) -> str:
    """The URL of the database that is written, but for passwords."""
    from metasched.database.shown_url import shown_url

    return shown_url(db if isinstance(db, str) else db[0])


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object a line, for machines")


def allowed_permissions(text: str) -> Allowed:
    try:
        return Allowed.parse(text)
    except MetaschedError as error:
        raise ArgumentTypeError(str(error)) from None


def setting(text: str) -> tuple[str, Setting]:
    """`N=256` or `T=bf16` as a pair."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip().isidentifier():
        raise ArgumentTypeError(with_hint(f"`{text}` is not a setting", "write NAME=VALUE, such as N=256 or T=f64"))
    if value.strip() in _ELEMENT_TYPES:
        return name.strip(), value.strip()
    try:
        return name.strip(), int(value)
    except ValueError:
        message = f"the value of `{name.strip()}` is an integer or an element type, not `{value}`"
        raise ArgumentTypeError(message) from None


def input_range(text: str) -> tuple[str, tuple[float, float]]:
    """`X=0.1,2` as a name and a range."""
    name, _, span = text.partition("=")
    try:
        low, high = map(float, span.split(","))
    except ValueError:
        low, high = math.inf, -math.inf
    if not name.strip().isidentifier() or not -math.inf < low <= high < math.inf:
        raise ArgumentTypeError(
            with_hint(f"`{text}` is no range of an argument", "write NAME=LOW,HIGH, such as X=0.1,2")
        )
    return name.strip(), (low, high)


def positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"a positive integer is needed, not `{text}`")
    return number


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ArgumentTypeError(f"a number of seconds is needed, such as 60, not `{text}`")
    return number


def seed(text: str) -> int:
    try:
        return seed_of(int(text))
    except (ValueError, MetaschedError):
        raise ArgumentTypeError(f"a seed is an integer from 0 to 2**63 - 1, not `{text}`") from None


def params(pairs: list[tuple[str, Setting]]) -> dict[str, Setting]:
    """The `-D` settings; one given twice is a mistake, not a choice."""
    out: dict[str, Setting] = {}
    for name, value in pairs:
        if name in out:
            raise UsageError(f"-D {name} is given twice, as {out[name]} and as {value}")
        out[name] = value
    return out
