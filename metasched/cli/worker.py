"""`metasched worker`: have this machine build and time candidates for a cluster."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

from metasched.cli.arguments import add_threads, positive, timed_target
from metasched.cli.command import Console


def add_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Join the dask scheduler at an address, and build and time candidates for those who tune with "
        "runner='dask://ADDRESS'. This machine runs whatever the scheduler sends it, so it has to trust it, and "
        "everybody who reaches it: without TLS, it joins a scheduler of this machine only."
    )
    parser.add_argument("address", metavar="ADDRESS", help="of the scheduler, such as 127.0.0.1:8786")
    parser.add_argument("--name", metavar="NAME", help="by which the scheduler knows this machine")
    parser.add_argument(
        "--builders",
        type=positive,
        metavar="N",
        help="candidates built at once, while none is timed (default: one for each core, at most 8)",
    )
    for option, what in (
        ("--tls-ca", "the authority that the scheduler and this machine trust"),
        ("--tls-cert", "this machine's certificate"),
        ("--tls-key", "the key of that"),
    ):
        parser.add_argument(option, metavar="FILE", help=f"a PEM file: {what}")
    add_threads(parser)


def run(args: Namespace, console: Console) -> int:
    from metasched.measure.cluster.address import SchedulerAddress, TLSFiles
    from metasched.measure.cluster.dask_package import require_distributed
    from metasched.measure.cluster.machine import ThisMachine
    from metasched.measure.cluster.worker import serve
    from metasched.measure.runner import RunnerSettings

    address = SchedulerAddress.parse(args.address, TLSFiles.from_paths(args.tls_ca, args.tls_cert, args.tls_key))
    require_distributed()
    target = timed_target(args, console)
    builders = args.builders or max(1, min(8, len(os.sched_getaffinity(0))))
    machine = ThisMachine(target, RunnerSettings(threads=target.threads, builders=builders))
    console.note(f"{target}\nyardsticks take {machine.greeting.pace}")
    console.note(f"this machine trusts the scheduler at {address}: it runs what that sends")
    serve(address, machine, args.name, lambda own: console.note(f"joined as {own}; Ctrl-C leaves"))
    console.note("the scheduler has ended")
    return 0
