"""`metasched net tune`: tune all tasks of a model in one session, and keep what was measured."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace

from metasched.cli.arguments import (
    add_db,
    add_rules,
    add_search,
    db_options,
    first_db,
    positive,
    seconds,
)
from metasched.cli.command import Console, ending_by_signal
from metasched.cli.net_arguments import add_model, bound_again, network_of
from metasched.graph.tasks import join_tables
from metasched.graph.tuning.graphs import NetworkReport
from metasched.graph.tuning.view import NetworkProgress, network_view
from metasched.search.scheduler_registry import NETWORK_SCHEDULER, SCHEDULERS
from metasched.settings import DEFAULT_DATABASE
from metasched.support.data_classes import dataclass


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--budget",
        type=seconds,
        metavar="SECONDS",
        help="tune for so long (default: 600, unless --trials or --patience ends it)",
    )
    parser.add_argument(
        "--trials", type=positive, metavar="N", help="measurements to have in the end, earlier runs included"
    )
    parser.add_argument(
        "--patience", type=positive, metavar="N", help="end with a task after N trials without a gain beyond noise"
    )
    add_db(parser, DEFAULT_DATABASE, "where to keep them")
    parser.add_argument(
        "--objective",
        default="sum",
        metavar="NAME",
        help="what is minimised: sum (the network's time, the default), early_stopping (without tasks that stay as "
        "they are for long), or latency=SECONDS (ends when that is reached)",
    )
    add_rules(parser)
    parser.add_argument(
        "--scheduler",
        default=NETWORK_SCHEDULER,
        metavar="NAME",
        help=f"which task is next: {', '.join(SCHEDULERS.names())} (default: %(default)s)",
    )
    add_search(parser, "cost_model")


def run(args: Namespace, console: Console) -> int:
    network = network_of(args, console)
    with ending_by_signal() as ending:
        report = network.tune(
            args.trials,
            args.db,
            budget=args.budget,
            patience=args.patience,
            objective=args.objective,
            scheduler=args.scheduler,
            seed=args.seed,
            progress=_Json(console) if args.json else network_view(console.err),
            rules=args.rules,
            allow=args.allow,
            knowledge=args.knowledge,
            runner=args.runner,
            strategy=args.strategy,
            model=args.cost_model,
        )
    status = ending.status if report.interrupted else 0
    if args.json:
        console.print_json(result(report))
        return status
    console.print(str(report))
    again = f"{shlex.quote(args.model)}{bound_again(args)} {db_options(args.db)}"
    console.print(f"\nKept in {first_db(args.db)}; the same command goes on from there. Next:")
    for action, more in (("run", ""), ("profile", ""), ("export", " FOLDER")):
        console.print(f"  metasched net {action} {again}{more}")
    return status


def result(report: NetworkReport) -> dict[str, object]:
    """The last line of `--json`."""
    table = join_tables(report.tables)
    return {
        "event": "result",
        "networks": len(report.tables),
        "guess_ms": _milliseconds(sum(report.before_s)),
        "kernels_ms": _milliseconds(sum(report.after_s)),
        "trials": report.trials,
        "measured": report.measured,
        "elapsed_s": report.elapsed_s,
        "interrupted": report.interrupted,
        "tasks": [
            {"key": row.task.key, "task": row.task.name, "runs": row.weight, "trials": row.trials}
            | {"best_ms": None if row.best_s is None else _milliseconds(row.best_s), "origin": row.mark}
            for row in table.rows
        ],
    }


def _milliseconds(found: float) -> float:
    return found * 1e3


@dataclass(frozen=True)
class _Json:
    """An object after every measurement."""

    console: Console

    def begin(self, task: str) -> None:
        """Nothing has happened yet."""

    def __call__(self, progress: NetworkProgress) -> None:
        rows = progress.table.rows
        self.console.print_json(
            {
                "event": "progress",
                "trials": progress.trials,
                "total": progress.total,
                "tasks": len(rows),
                "tasks_measured": sum(row.best_s is not None for row in rows),
                "kernels_ms": _milliseconds(sum(row.total_s for row in rows)),
                "now": next((row.task.name for row in rows if row.mark == "now"), None),
                "elapsed_s": progress.elapsed_s,
                "left_s": progress.left_s,
            }
        )

    def close(self) -> None:
        """Nothing is left open."""
