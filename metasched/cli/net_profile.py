"""`metasched net profile`: where the time of a model's call goes, kernel by kernel."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from metasched.cli.arguments import positive
from metasched.cli.command import Console
from metasched.cli.net_arguments import add_database, add_inputs, add_model, inputs_of, network_of

_RUNS = 30


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    add_database(parser)
    add_inputs(parser)
    parser.add_argument(
        "--runs", type=positive, default=_RUNS, metavar="N", help="times are medians of so many (default: %(default)s)"
    )


def run(args: Namespace, console: Console) -> int:
    network = network_of(args, console, args.db)
    profile = network.profile(runs=args.runs, **inputs_of(args, network))
    if args.json:
        console.print_json(profile.to_json())
    else:
        console.print(str(profile))
    return 0
