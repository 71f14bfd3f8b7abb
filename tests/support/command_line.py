"""The command line, run in this process."""

from __future__ import annotations

import io

from metasched.cli.command import Console
from metasched.cli.main import main


def run(*arguments: str) -> tuple[int, str, str]:
    """The exit status of `metasched ARGUMENTS`, and what it writes to standard output and to standard error."""
    out, err = io.StringIO(), io.StringIO()
    status = main(arguments, Console(out, err))
    return status, out.getvalue(), err.getvalue()
