"""A dask worker with our resources, on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

from metasched.errors import MetaschedError
from metasched.measure.cluster.address import SchedulerAddress
from metasched.measure.cluster.dask_package import require_distributed
from metasched.measure.cluster.machine import Machine
from metasched.measure.cluster.remote_calls import BUILDING, PLUGIN, TIMING
from metasched.measure.workers.temporary import TemporaryFolder

# Besides those that build: one times, and one answers what the machine is.
_MORE_THREADS = 2


def serve(
    address: SchedulerAddress,
    machine: Machine,
    name: str | None = None,
    tell: Callable[[str], None] = lambda text: None,
    patience_s: float = 30.0,
) -> None:
    """Work for a scheduler until it ends; `tell` is called with the worker's own address once it has joined.

    The machine is closed with it. What a worker that a signal ends leaves in the folder for temporary files is removed
    by the next runner there. Raises MetaschedError where the scheduler cannot be reached for `patience_s` seconds.
    """
    with closing(TemporaryFolder()) as folder:
        try:
            asyncio.run(_serve(address, machine, name, tell, patience_s, str(folder.path)))
        except (OSError, TimeoutError) as error:
            raise MetaschedError(
                f"no scheduler answers at {address}: {str(error) or 'it took too long'}",
                hint="`dask scheduler --host 127.0.0.1` starts one; are the files for TLS of one authority?",
            ) from error
        finally:
            machine.close()


async def _serve(
    address: SchedulerAddress,
    machine: Machine,
    name: str | None,
    tell: Callable[[str], None],
    patience_s: float,
    folder: str,
) -> None:
    builders = machine.greeting.builders
    worker = require_distributed().Worker(
        str(address),
        host=address.listens_at,
        name=name,
        nthreads=builders + _MORE_THREADS,
        resources={TIMING: 1, BUILDING: builders},
        memory_limit=0,  # what takes memory are processes of their own, with limits of their own
        security=address.security(),
        plugins=(_plugin(machine),),
        local_directory=folder,
        death_timeout=patience_s,
        dashboard=False,
    )
    async with asyncio.timeout(patience_s):
        await worker
    tell(str(worker.address))
    await worker.finished()


def _plugin(machine: Machine) -> Any:
    """How a function that was sent finds the machine."""

    class MachinePlugin(require_distributed().WorkerPlugin):  # type: ignore[misc]  # it has no types
        name = PLUGIN

        def __init__(self) -> None:
            self.machine = machine

    return MachinePlugin()
