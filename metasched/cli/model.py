"""`metasched model`: cost models trained on what was measured, what they hold, and how well they rank."""

from __future__ import annotations

import datetime as dt
import shlex
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path

from metasched.cli.arguments import UsageError, add_json
from metasched.cli.command import Console
from metasched.cli.render import table
from metasched.cost.learning.figures import figures
from metasched.cost.learning.held_out import (
    KindOfTask,
    adapt_model,
    can_judge,
    judge_held_out,
    judge_task,
    train_on_all,
)
from metasched.cost.learning.importance import importances
from metasched.cost.learning.ranking import Judgement
from metasched.cost.learning.trained import (
    MOST_BYTES,
    SHIPPED_FILE,
    UNTRAINED_MODEL,
    TrainedModel,
    read_model,
    read_shipped_model,
)
from metasched.cost.learning.training import train
from metasched.database import Access, Database, code_version, open_database
from metasched.errors import NoRecord
from metasched.settings import DEFAULT_DATABASE
from metasched.support.messages import counted

# What a training may start from, besides a file.
_SHIPPED, _NOTHING = "shipped", "nothing"
_DEFAULT_FILE = "model.json"
_COLUMNS = {
    "pairs": "pair_accuracy",
    "fastest quarter": "fastest_quarter",
    "top-1": "top1_score",
    "top-5": "top5_score",
    "10 in 30": "recall_10_in_30",
    "regret 1": "regret_1",
    "regret 8": "regret_8",
    "regret 16": "regret_16",
    "log2 expected / measured": "log2_expected_over_measured",
}


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = actions.add_parser("train", help="train a model on all records of databases, and write it as text")
    _add_db(made)
    made.add_argument("--out", metavar="FILE", default=_DEFAULT_FILE, help="the file to write (default: %(default)s)")
    made.add_argument(
        "--start",
        metavar="FROM",
        default=_SHIPPED,
        help=f"what it starts from: `{_SHIPPED}`, the model of the package (default), a model's file, or `{_NOTHING}`",
    )
    add_json(made)
    show = actions.add_parser("show", help="what a model was trained on, and which features it goes by")
    show.add_argument("file", metavar="FILE", nargs="?", help="a model's file (default: the model of the package)")
    add_json(show)
    evaluate = actions.add_parser(
        "evaluate", help="how well models rank the recorded candidates of tasks that they were not trained on"
    )
    evaluate.add_argument("file", metavar="FILE", nargs="?", help="a model's file, to be judged beside the others")
    _add_db(evaluate)
    add_json(evaluate)


def _add_db(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--db", metavar="URL", action="append", help=f"a database; may be repeated (default: {DEFAULT_DATABASE})"
    )


def run(args: Namespace, console: Console) -> int:
    return ACTIONS[args.action](args, console)


# --- train


def _train(args: Namespace, console: Console) -> int:
    place = Path(args.out).absolute().parent
    if not place.is_dir():  # said now, and not after the training
        raise UsageError(f"there is no folder `{place}` to write `{args.out}` to")
    make = train if args.start == _NOTHING else partial(adapt_model, _start(args.start))
    tasks = _tasks(args, console)
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    model = train_on_all(tasks, today, code_version(), make)
    text = model.dumps()
    if len(text.encode()) > MOST_BYTES:
        raise UsageError(f"the model would be longer than {MOST_BYTES} bytes, which none that is read may be")
    _write(Path(args.out), text)
    if args.json:
        console.print_json({"event": "model", "file": args.out, **_facts(model, len(text.encode()))})
    else:
        console.print(f"{args.out}: trained on {_trained_on(model)}, {len(text.encode()) / 1024:.0f} KB")
        console.print(_held_out(model))
        console.print(
            f"Search with it: metasched tune ... --model {shlex.quote(args.out)}, or ms.tune(..., model={args.out!r})"
        )
    return 0


def _start(given: str) -> TrainedModel:
    return read_shipped_model() if given == _SHIPPED else read_model(Path(given))


def _write(path: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises OSError that names it, and not what is beside it meanwhile."""
    try:
        with tempfile.TemporaryDirectory(dir=path.absolute().parent, prefix=path.name) as folder:
            new = Path(folder, path.name)
            new.write_text(text, encoding="utf-8")
            new.replace(path)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error


@contextmanager
def _databases(args: Namespace) -> Iterator[list[Database]]:
    with ExitStack() as stack:
        urls = dict.fromkeys(args.db or [DEFAULT_DATABASE])
        yield [stack.enter_context(open_database(url, Access.READ)) for url in urls]


def _tasks(args: Namespace, console: Console) -> tuple[KindOfTask, ...]:
    """The tasks of the databases. Raises NoRecord where there is none to learn from."""
    from metasched.search.records.recorded_tasks import recorded_tasks

    with _databases(args) as databases:
        found = recorded_tasks(databases, console.note)
    if found.left_out:
        console.note(_left_out(found.left_out))
    if not found.tasks:
        raise NoRecord("there is no task with enough records to learn from", hint="`metasched tune` makes them")
    return found.tasks


def _left_out(reasons: Counter[str]) -> str:
    told = ", ".join(f"{times} as {reason}" for reason, times in reasons.most_common(5))
    return f"{counted(reasons.total(), 'record')} left out: {told}"


# --- show


def _show(args: Namespace, console: Console) -> int:
    path = SHIPPED_FILE if args.file is None else Path(args.file)
    model = read_model(path)
    size = path.stat().st_size
    if args.json:
        console.print_json({"event": "model", "file": str(path), **_facts(model, size)})
        return 0
    facts = model.facts
    rows = [
        ["file", f"{path}, {size / 1024:.0f} KB, {counted(len(model.trees), 'tree')}"],
        ["trained on", _trained_on(model)],
        ["on", facts.date or "an unknown day"],
        ["with", facts.versions or "unknown versions"],
        *(["target", target] for target in facts.targets),
    ]
    console.print(table(rows))
    console.print(f"\n{_held_out(model)}\n")
    console.print("Share of what the splits gained, by group of features")
    console.print(table([[name, f"{share:.1%}"] for name, share in importances(model).items()], "<>"))
    return 0


def _trained_on(model: TrainedModel) -> str:
    facts = model.facts
    return f"{counted(facts.records, 'record')} of {counted(len(facts.tasks), 'task')}" if facts.tasks else "nothing"


def _held_out(model: TrainedModel) -> str:
    known = dict(model.facts.held_out)
    if not known:
        return "How well it ranks kinds of tasks that are left out is not known: there are too few."
    told = ", ".join(f"{heading} {known[name]:.3f}" for heading, name in _COLUMNS.items() if name in known)
    return f"Kinds of tasks that were left out in training: {told}"


def _facts(model: TrainedModel, size: int) -> dict[str, object]:
    facts = model.facts
    return {
        "bytes": size,
        "trees": len(model.trees),
        "tasks": [{"program": task.name, "records": task.records} for task in facts.tasks],
        "records": facts.records,
        "targets": list(facts.targets),
        "date": facts.date,
        "versions": facts.versions,
        "held_out": dict(facts.held_out),
        "importances": importances(model),
    }


# --- evaluate


def _evaluate(args: Namespace, console: Console) -> int:
    given = None if args.file is None else read_model(Path(args.file))
    tasks = _tasks(args, console)
    judged = [task for task in tasks if can_judge(task.times) and not _has_seen(given, task)]
    if not judged:
        raise _nothing_to_judge(args.file, tasks)
    found: dict[str, list[Judgement]] = {
        "roofline": [judge_task(task, UNTRAINED_MODEL) for task in judged],
        "shipped": [judge_task(task, read_shipped_model()) for task in judged],
    }
    if given is not None:
        found[args.file] = [judge_task(task, given) for task in judged]
    elif len(tasks) > 1:
        # As in a search, which learns from all tasks but its own.
        each_alone = [replace(task, kind=task.task.program_hash) for task in tasks]
        found["shipped, and the other tasks here"] = judge_held_out(
            each_alone, partial(adapt_model, read_shipped_model())
        )
    records = sum(len(task.times) for task in judged)
    if args.json:
        for name, of_tasks in found.items():
            told = {key: None if isnan(value) else value for key, value in figures(of_tasks).items()}
            console.print_json({"event": "model", "model": name, "tasks": len(judged), "records": records, **told})
        return 0
    rows = [["model", *_COLUMNS]]
    for name, of_tasks in found.items():
        own = figures(of_tasks)
        rows.append([name, *(f"{own[column]:.3f}" for column in _COLUMNS.values())])
    console.print(f"{counted(records, 'record')} of {counted(len(judged), 'task')}\n")
    console.print(table(rows, "<" + ">" * len(_COLUMNS)))
    return 0


def _has_seen(model: TrainedModel | None, task: KindOfTask) -> bool:
    return model is not None and task.task.program_hash in {known.program_hash for known in model.facts.tasks}


def _nothing_to_judge(file: str | None, tasks: Sequence[KindOfTask]) -> NoRecord:
    if file is not None and any(can_judge(task.times) for task in tasks):
        return NoRecord(f"{file} was trained on all of these tasks", hint="give another --db, or no file")
    return NoRecord("no task has 16 times, by which models are judged", hint="`metasched tune` makes more")


ACTIONS: Mapping[str, Callable[[Namespace, Console], int]] = {"train": _train, "show": _show, "evaluate": _evaluate}
