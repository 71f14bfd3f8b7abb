"""The executor `local`: worker processes on this machine."""

from __future__ import annotations

from metasched.errors import MetaschedError
from metasched.measure.executor_registry import ExecutorInputs
from metasched.measure.runner import LocalRunner, Runner, RunnerSettings


def executor(wanted: ExecutorInputs) -> Runner:
    """A runner of this machine.

    Raises MetaschedError for an address, which it does not take, and ResourceError when the machine denies what it
    needs.
    """
    if wanted.address:
        raise MetaschedError(
            f"`local://{wanted.address}`: measuring on this machine takes no address", hint='write runner="local"'
        )
    return LocalRunner(RunnerSettings(threads=wanted.threads))
