"""`metasched db`: what a database holds, as text to keep or send, merged back in, and cleaned up."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from metasched.cli.arguments import UsageError, add_db, add_json, positive
from metasched.cli.command import Console
from metasched.cli.render import table
from metasched.database import Access, DatabaseError, DatabaseStats, Record, TaskStats, code_version, open_database
from metasched.database.best import fastest_records
from metasched.database.shown_url import shown_url
from metasched.database.transfer import (
    DAY_S,
    Removal,
    check_record,
    lines_of,
    new_records,
    read_lines,
    records_to_remove,
)
from metasched.database.user_database import kernels_database
from metasched.errors import NoRecord
from metasched.knowledge.distill import entries_of, merge_entries
from metasched.knowledge.entries import print_entries
from metasched.knowledge.library import read_file
from metasched.lang import read_source
from metasched.report.progress_text import duration, failures
from metasched.report.recorded import require_program, task_name
from metasched.settings import DEFAULT_DATABASE, IN_MEMORY
from metasched.support.messages import counted, with_hint

MOST_TOLD = 5  # of what is wrong in imported files


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    stats = actions.add_parser("stats", help="the tasks, their number of records, failures and best times")
    _add_db_to_read(stats)
    add_json(stats)
    export = actions.add_parser("export", help="write records as text, a JSON object a line")
    _add_db_to_read(export)
    export.add_argument("--out", metavar="FILE", help="where to (default: standard output)")
    export.add_argument("--program", metavar="NAME", help="those of one program only")
    export.add_argument("--best", type=positive, metavar="N", help="the N fastest of each task only")
    merge = actions.add_parser("import", help="add the records of exported files that are not there yet")
    merge.add_argument("files", metavar="FILE", nargs="+", help="an exported file; - is standard input")
    _add_skip_invalid(merge)
    _add_db_to_write(merge)
    _add_dry_run(merge)
    union = actions.add_parser(
        "merge",
        help="add the records of other databases that are not there yet",
        description="Read databases, and add to one what it does not hold yet. Each record is checked as one of an "
        "imported file is; merging the same again changes nothing.",
    )
    union.add_argument("sources", metavar="URL", nargs="+", help="a database to read")
    _add_skip_invalid(union)
    _add_db_to_write(union)
    _add_dry_run(union)
    distill = actions.add_parser(
        "distill",
        help="write what was found for each size as knowledge, which guesses for other sizes begin with",
        description="Write the best structures and numbers of every task as knowledge: text that `--knowledge` takes "
        "and that packages ship. What the file has already is kept where it is faster.",
    )
    _add_db_to_read(distill)
    distill.add_argument("--out", metavar="FILE", required=True, help="the file, such as mine.knowledge")
    prune = actions.add_parser(
        "prune",
        help="remove records",
        description="Remove the records that all of these hold for. Tuning measures again what it no longer finds.",
    )
    _add_db_to_write(prune)
    prune.add_argument("--program", metavar="NAME", help="those of one program")
    prune.add_argument("--failures", action="store_true", help="those without a time")
    prune.add_argument("--older-than", type=positive, metavar="DAYS", help="those measured longer ago")
    prune.add_argument("--other-versions", action="store_true", help="those of other versions of the code generator")
    prune.add_argument("--keep-best", type=positive, metavar="N", help="all but the N fastest of each task and version")
    prune.add_argument("--damaged", action="store_true", help="those that cannot be read, and nothing else")
    _add_dry_run(prune)


def _add_db_to_read(parser: ArgumentParser) -> None:
    add_db(parser, DEFAULT_DATABASE, "what to read", "all are read")


def _add_db_to_write(parser: ArgumentParser) -> None:
    add_db(parser, DEFAULT_DATABASE, "what to change", "")


def _add_skip_invalid(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--skip-invalid",
        action="store_true",
        help="add the others where some are wrong, and say how many (default: add none)",
    )


def _add_dry_run(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and leave the database alone")


def run(args: Namespace, console: Console) -> int:
    return ACTIONS[args.action](args, console)


def _stats(args: Namespace, console: Console) -> int:
    if args.db == DEFAULT_DATABASE:
        _note_the_users(console)
    with open_database(args.db, Access.READ) as database:
        stats = database.stats()
        unread = database.damaged() if any(map(_has_unread, stats.tasks)) else []
    print_stats(stats, args.json, console)
    if unread:
        console.note(
            with_hint(
                f"{_count(len(unread))} cannot be read (the first: {unread[0]})",
                "`metasched db prune --damaged` removes such records",
            )
        )
    return 0


def print_stats(stats: DatabaseStats, as_json: bool, console: Console) -> None:
    """The tasks of a database, as a table or as an object each."""
    if not as_json:
        console.print(render_stats(stats))
        return
    for task in stats.tasks:
        console.print_json(_json(task))


def _has_unread(task: TaskStats) -> bool:
    """Whether records that did not fail give a task no time: they cannot be read. Reading all would take long."""
    return task.best_seconds is None and sum(number for _, number in task.failures) < task.records


def _note_the_users(console: Console) -> None:
    """Say where else something was tuned: the functions of `ms.kernel` keep it in a database of the user's."""
    try:
        url = kernels_database()
    except DatabaseError:
        return  # there is no folder of the user's, and so no database in it
    if _is_there(url):
        console.note(f"what functions of ms.kernel have tuned is in {url}; --db takes it")


def _export(args: Namespace, console: Console) -> int:
    with open_database(args.db, Access.READ) as database:
        if args.program is not None:
            require_program(database, args.program)
        tasks = [t for t in database.stats().tasks if args.program in {None, t.program}]
        by_task = [database.records(task.task) for task in tasks]
    if args.best is not None:
        by_task = [fastest_records(records, args.best) for records in by_task]
    records = [record for of_task in by_task for record in of_task]
    lines = lines_of(records)
    if args.out is None:
        for line in lines:
            console.print(line)
    else:
        Path(args.out).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        console.note(f"{_count(len(records))} of {counted(len(by_task), 'task')} to {args.out}")
    return 0


def _distill(args: Namespace, console: Console) -> int:
    """Write knowledge; what is in the file already is merged with it."""
    path = Path(args.out)
    before = list(read_file(path)) if path.exists() else []
    with open_database(args.db, Access.READ) as database:
        entries = merge_entries(before, entries_of(database))
    path.write_text(print_entries(entries), encoding="utf-8")
    kinds = len({entry.kind for entry in entries})
    sizes = len({(entry.kind, entry.size) for entry in entries})
    console.note(
        f"{counted(len(entries), 'entry', 'entries')} of {counted(sizes, 'size')} and "
        f"{counted(kinds, 'kind of anchor', 'kinds of anchor')} in {args.out}"
    )
    return 0


def _import(args: Namespace, console: Console) -> int:
    return _add_new(args, [item for file in args.files for item in _read_records(file)], console)


def _merge(args: Namespace, console: Console) -> int:
    """Add what other databases hold."""
    if args.db in args.sources:
        raise UsageError(f"{shown_url(args.db)} is what is added to", hint="leave it out of what is read")
    found: list[Record | DatabaseError] = []
    for url in args.sources:
        with open_database(url, Access.READ) as database:
            for task in database.stats().tasks:
                found += (_check_or_error(record, database.url) for record in database.records(task.task))
    return _add_new(args, found, console)


def _check_or_error(record: Record, url: str) -> Record | DatabaseError:
    try:
        check_record(record)
    except ValueError as error:
        return DatabaseError(f"{shown_url(url)}: the record of trial {record.trial} is refused: {error}")
    return record


def _add_new(args: Namespace, found: Sequence[Record | DatabaseError], console: Console) -> int:
    """Add the records that are not there yet, unless some are wrong."""
    wrong = [item for item in found if isinstance(item, DatabaseError)]
    read = [item for item in found if isinstance(item, Record)]
    if wrong and not args.skip_invalid:
        raise DatabaseError(_first_errors(wrong), hint="nothing was added; --skip-invalid adds the others")
    with ExitStack() as stack:
        # A dry run makes no database where there is none.
        url = args.db if not args.dry_run or _is_there(args.db) else IN_MEMORY
        database = stack.enter_context(open_database(url))
        new = new_records(database, read)
        if not args.dry_run:
            database.add_all(new)
    done = "would be added to" if args.dry_run else "added to"
    console.print(
        f"{_count(len(new))} {done} {shown_url(args.db)}; {len(read) - len(new)} of {len(read)} were there already"
    )
    if wrong:
        console.note(f"{_first_errors(wrong)}\n{_count(len(wrong))} passed over")
    return 0


def _first_errors(wrong: Sequence[DatabaseError]) -> str:
    """The first few errors."""
    told = [str(error) for error in wrong[:MOST_TOLD]]
    more = len(wrong) - len(told)
    return "\n".join([*told, f"and {_count(more)} more"] if more else told)


def _read_records(file: str) -> Iterator[Record | DatabaseError]:
    if file != "-":
        return read_lines(read_source(file).split("\n"), file, check_record)
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError as error:
        raise DatabaseError(f"standard input is not text: {error}") from None
    return read_lines(text.split("\n"), "standard input", check_record)


def _is_there(url: str) -> bool:
    try:
        open_database(url, Access.READ).close()
    except NoRecord:
        return False
    return True


def _prune(args: Namespace, console: Console) -> int:
    removal = Removal(
        program=args.program,
        before=None if args.older_than is None else time.time() - args.older_than * DAY_S,
        failures=args.failures,
        keep_best=args.keep_best,
        other_than=code_version() if args.other_versions else None,
    )
    if args.damaged:
        if not removal.is_empty:
            raise UsageError("--damaged goes with no other condition: nobody knows what such a record says")
        return _prune_damaged(args, console)
    if removal.is_empty:
        raise UsageError("say which records to remove; `metasched db prune --help` lists the conditions")
    with open_database(args.db, Access.WRITE) as database:
        if args.program is not None:
            require_program(database, args.program)
        found = records_to_remove(database, removal)
        left = database.stats().records - len(found)
        if found and not args.dry_run:
            database.remove(found)
    console.print(_removal_text(args, len(found), left))
    return 0


def _prune_damaged(args: Namespace, console: Console) -> int:
    with open_database(args.db, Access.WRITE) as database:
        found = database.damaged()
        left = database.stats().records - len(found)
        if found and not args.dry_run:
            database.remove_damaged()
    console.print("\n".join([*(f"damaged: {problem}" for problem in found), _removal_text(args, len(found), left)]))
    return 0


def _removal_text(args: Namespace, number: int, left: int) -> str:
    done = "would be removed from" if args.dry_run else "removed from"
    return f"{_count(number)} {done} {shown_url(args.db)}; {left} left"


def _count(records: int) -> str:
    return counted(records, "record")


def render_stats(stats: DatabaseStats) -> str:
    if not stats.tasks:
        return f"{stats.url} holds no records yet"
    rows = [["task", "threads", "records", "best", "last measured", "failures"]]
    rows += [
        [
            task_name(task),
            str(task.task.threads),
            str(task.records),
            _best_text(task),
            datetime.fromtimestamp(task.last).astimezone().strftime("%Y-%m-%d %H:%M"),
            failures(dict(task.failures)) or "none",
        ]
        for task in stats.tasks
    ]
    targets = sorted({f"{task.task.target}  ({version})" for task in stats.tasks for version in task.code_versions})
    return "\n".join([f"{stats.url}: {_count(stats.records)}", "", table(rows, "<>>>"), "", *targets])


def _best_text(task: TaskStats) -> str:
    """The best time; that of what is run once for constant arguments is added."""
    if task.best_seconds is None:
        return "-"
    once = task.best_prologue_seconds
    return duration(task.best_seconds) + ("" if once is None else f" + {duration(once)} once")


def _json(task: TaskStats) -> dict[str, object]:
    return {
        "program": task.program,
        "params": dict(task.params),
        "target": task.task.target,
        "threads": task.task.threads,
        "code_versions": list(task.code_versions),
        "spaces": task.spaces,
        "records": task.records,
        "failures": dict(task.failures),
        "best_ms": None if task.best_seconds is None else task.best_seconds * 1e3,
        "best_prologue_ms": None if task.best_prologue_seconds is None else task.best_prologue_seconds * 1e3,
        "first": task.first,
        "last": task.last,
    }


ACTIONS: Mapping[str, Callable[[Namespace, Console], int]] = {
    "stats": _stats,
    "export": _export,
    "distill": _distill,
    "import": _import,
    "merge": _merge,
    "prune": _prune,
}
