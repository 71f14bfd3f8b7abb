"""`metasched report`: why a search came to what it did, by a database: as text, as JSON, or as one HTML file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from metasched.cli.arguments import UsageError, add_db, add_json, params, setting
from metasched.cli.command import Console
from metasched.cli.db import print_stats
from metasched.database import Access, Database, TaskStats, open_database
from metasched.operators.named import program_named
from metasched.report.page import save_page
from metasched.report.recorded import named_tasks, recorded_analysis, task_name, tasks_of
from metasched.report.winner import winner_profile
from metasched.settings import DEFAULT_DATABASE
from metasched.support.messages import counted

_PROGRAMS = (".ms", ".ms::", "op:")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "program",
        nargs="?",
        metavar="FILE.ms[::NAME]",
        help="the program's file, op:NAME, or a name as the list of tasks has it; without one, the tasks are listed",
    )
    parser.add_argument(
        "-D", dest="params", metavar="K=V", type=setting, action="append", default=[], help="a parameter of the program"
    )
    add_db(parser, DEFAULT_DATABASE, "what to read", "all are read")
    parser.add_argument(
        "--out", metavar="FILE.html", help="write one HTML file with pictures, which runs the best kernel once more"
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="run the best kernel on random data: where the time of a call goes",
    )
    add_json(parser)


def run(args: Namespace, console: Console) -> int:
    with open_database(args.db, Access.READ) as database:
        if args.program is None:
            if args.out or args.profile:
                raise UsageError("say which task: FILE.ms, or a name as `metasched report --db URL` lists it")
            if args.params:
                raise UsageError("-D sets a parameter of a program; say which: FILE.ms, or a name of the list")
            print_stats(database.stats(), args.json, console)
            return 0
        task, *others = _tasks(args, database)
        analysis = recorded_analysis(database, task)
    if others:
        told = ", ".join(f"{task_name(other)} with {counted(other.task.threads, 'thread')}" for other in others[:3])
        console.note(f"this is the one that was measured last; {told} {'is' if len(others) == 1 else 'are'} there, too")
    winner = winner_profile(analysis) if args.profile or args.out else None
    if args.out:
        console.note(f"written to {save_page(analysis, args.out, winner)}")
    if args.json:
        profile = None if winner is None or winner.profile is None else winner.profile.to_json()
        console.print_json({**analysis.to_json(), "profile": profile})
    elif not args.out or args.profile:
        console.print(str(analysis))
        if args.profile and winner is not None:
            console.print(f"\n{winner.profile or winner.obstacle}")
    return 0


def _tasks(args: Namespace, database: Database) -> list[TaskStats]:
    """The tasks that the arguments name, the one measured last first. Raises NoRecord, and LanguageError for a file."""
    if any(part in args.program for part in _PROGRAMS):
        program = program_named(args.program, **params(args.params))
        return tasks_of(database, program.structural_hash(), program.key)
    settings = ", ".join(f"{key}={value}" for key, value in args.params)
    return named_tasks(database, f"{args.program}[{settings}]" if settings else args.program)
