"""`metasched net export`: write a compiled model to a folder that runs with NumPy alone."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from metasched.cli.command import Console
from metasched.cli.net_arguments import add_database, add_model, network_of


def add_arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    add_database(parser)
    parser.add_argument("folder", metavar="FOLDER", help="where to; a new folder, or one that was exported before")


def run(args: Namespace, console: Console) -> int:
    network = network_of(args, console, args.db)
    folder = network.export(args.folder)
    files = {file.name: file.stat().st_size for file in sorted(folder.iterdir()) if file.is_file()}
    if args.json:
        console.print_json({"folder": str(folder), "files": files})
        return 0
    for name, size in files.items():
        console.print(f"{folder / name}  {size / 1e6:.2f} MB")
    given = ", ".join(network.inputs)
    console.print(f"\nIn any process with NumPy:\n  from {folder.name}.network import run\n  run({given})")
    return 0
