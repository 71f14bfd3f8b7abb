"""`metasched db`: what a database holds."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import datetime

from metasched.cli.arguments import DEFAULT_DATABASE, add_json
from metasched.cli.command import Command, Console
from metasched.cli.render import duration, failures, table
from metasched.database import DatabaseStats, Missing, TaskStats, open_database


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    stats = actions.add_parser("stats", help="the tasks, their number of records, failures and best times")
    stats.add_argument("--db", default=DEFAULT_DATABASE, metavar="URL", help="default: %(default)s")
    add_json(stats)


def run(args: Namespace, console: Console) -> int:
    with open_database(args.db, Missing.RAISE) as database:
        stats = database.stats()
    if args.json:
        for task in stats.tasks:
            console.print_json(_json(task))
    else:
        console.print(render(stats))
    return 0


def name(task: TaskStats) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in task.params)
    return f"{task.program}[{settings}]" if settings else task.program


def render(stats: DatabaseStats) -> str:
    if not stats.tasks:
        return f"{stats.url} holds no records yet"
    rows = [["task", "threads", "records", "best", "last measured", "failures"]]
    rows += [
        [
            name(task),
            str(task.task.threads),
            str(task.records),
            "-" if task.best_seconds is None else duration(task.best_seconds),
            datetime.fromtimestamp(task.last).astimezone().strftime("%Y-%m-%d %H:%M"),
            failures(dict(task.failures)) or "none",
        ]
        for task in stats.tasks
    ]
    targets = sorted({f"{task.task.target}  ({task.task.code_version})" for task in stats.tasks})
    return "\n".join([f"{stats.url}: {stats.records} records", "", table(rows, "<>>>"), "", *targets])


def _json(task: TaskStats) -> dict[str, object]:
    return {
        "program": task.program,
        "params": dict(task.params),
        "target": task.task.target,
        "threads": task.task.threads,
        "code_version": task.task.code_version,
        "records": task.records,
        "failures": dict(task.failures),
        "best_ms": None if task.best_seconds is None else task.best_seconds * 1e3,
        "first": task.first,
        "last": task.last,
    }


COMMAND = Command("db", "What a database of measurements holds.", add_arguments, run)
