"""`metasched doctor`: what this machine is like for compiling and timing kernels, and what to change."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from metasched.cli.arguments import add_json, add_threads
from metasched.cli.command import Console
from metasched.doctor.examination import examine
from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding, Standing
from metasched.target import Target

_MARKS = {Standing.GOOD: "ok", Standing.NOTE: "note", Standing.PROBLEM: "PROBLEM"}
_NAME, _MARK = 18, 9


def add_arguments(parser: ArgumentParser) -> None:
    add_threads(parser)
    add_json(parser)


def run(args: Namespace, console: Console) -> int:
    """Every check, as each is made; the status is 1 where one found a problem."""
    problems = 0
    for name, finding in examine(Examined(Target.detect(threads=args.threads))):
        problems += finding.state is Standing.PROBLEM
        if args.json:
            console.print_json({"check": name, **finding.to_json()})
        else:
            console.print(_lines(name, finding))
    return 1 if problems else 0


def _lines(name: str, finding: Finding) -> str:
    first = f"{name:{_NAME}}{_MARKS[finding.state]:{_MARK}}{finding.found}"
    return first + (f"\n{'':{_NAME + _MARK}}-> {finding.remedy}" if finding.remedy else "")
