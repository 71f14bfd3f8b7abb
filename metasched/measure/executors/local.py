"""The executor `local`: worker processes on this machine."""

from __future__ import annotations

from metasched.errors import MetaschedError
from metasched.measure.executor_registry import ExecutorInputs
from metasched.measure.runner import LocalRunner, Runner, RunnerSettings


class LocalExecutor:
    """Opens runners of this machine."""

    def check(self, wanted: ExecutorInputs) -> None:
        """Raises MetaschedError for an address, which it does not take."""
        if wanted.address:
            raise MetaschedError(
                f"`local://{wanted.address}`: measuring on this machine takes no address", hint='write runner="local"'
            )

    def __call__(self, wanted: ExecutorInputs) -> Runner:
        """A runner. Raises ResourceError when the machine denies what it needs."""
        return LocalRunner(RunnerSettings(threads=wanted.threads))


executor = LocalExecutor()
