"""`metasched calibrate`: have this machine measure itself, and keep it for the estimates of guesses and searches."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from metasched.calibration.calibration import MachineCalibration
from metasched.calibration.store import calibration_file
from metasched.cli.arguments import add_json, add_threads, timed_target
from metasched.cli.command import Console
from metasched.cli.render import table
from metasched.support.messages import counted

_HEADER = ("constant", "default", "here", "measured", "reference", "", "what is measured")


def add_arguments(parser: ArgumentParser) -> None:
    add_threads(parser)
    parser.add_argument("--dry-run", action="store_true", help="measure and print, and keep nothing")
    add_json(parser)


def run(args: Namespace, console: Console) -> int:
    from metasched.api import calibrate

    console.note("measuring; nothing else should run meanwhile")
    found = calibrate(timed_target(args, console).threads, keep=not args.dry_run)
    place = None if args.dry_run else str(calibration_file(found.target))
    if args.json:
        for probe, default, here, reference, measured in found.rows():
            name = probe.constant
            row = {"constant": name, "default": default, "here": here, "measured": measured, "reference": reference}
            console.print_json({**row, "by_threads": {str(n): value for n, value in found.measured[name].items()}})
        console.print_json({"clock_hz": found.clock_hz, "seconds": found.seconds, "file": place})
        return 0
    console.print(_table(found))
    console.note(
        f"{found.clock_hz / 1e9:.2f} GHz; {counted(found.target.threads, 'thread')}; measured in {found.seconds:.1f} s"
    )
    console.note("nothing was kept" if place is None else f"kept in {place}")
    return 0


def _table(found: MachineCalibration) -> str:
    rows = [
        (
            probe.constant,
            *(f"{value:.3g}" for value in (default, here, measured, reference)),
            probe.unit.value,
            probe.what,
        )
        for probe, default, here, reference, measured in found.rows()
    ]
    return table([_HEADER, *rows], "<>>>>")
