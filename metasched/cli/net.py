"""`metasched net`: whole networks: what is in a model, tune it, run it, see where its time goes, hand it over."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from metasched.cli.command import Command, CommandParser, Console
from metasched.cli.render import table

ACTIONS = (
    Command("net_show", "The graph of a model: values, nodes, programs, tasks."),
    Command("net_tune", "Tune all of a model's tasks, and keep what was measured."),
    Command("net_run", "Run a model on arrays of yours or on random ones; time it, compare its results."),
    Command("net_profile", "Each kernel's time in place, its speed, and where its schedule comes from."),
    Command("net_export", "Write the compiled network to a folder that runs with NumPy alone."),
)
_PREFIX = "net_"


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=CommandParser)
    for action in ACTIONS:
        name = action.name.removeprefix(_PREFIX)
        actions.add_parser(name, help=action.summary, description=action.summary, command=action)


def run(_args: Namespace, console: Console) -> int:
    """What there is to do, where nothing was asked for."""
    rows = [[f"metasched net {action.name.removeprefix(_PREFIX)} MODEL.onnx", action.summary] for action in ACTIONS]
    console.print(table(rows))
    return 0
