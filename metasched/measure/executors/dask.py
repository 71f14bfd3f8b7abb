"""The executor `dask`: the machines of a dask cluster, `dask://HOST:PORT`."""

from __future__ import annotations

from metasched.measure.cluster.address import SchedulerAddress
from metasched.measure.cluster.connection import Connection
from metasched.measure.cluster.runner import ClusterRunner, ClusterSettings
from metasched.measure.executor_registry import ExecutorInputs
from metasched.measure.runner import Runner


class DaskExecutor:
    """Opens runners on the cluster of a scheduler, `HOST:PORT`, with the files of TLS behind it: `?ca=&cert=&key=`."""

    def check(self, wanted: ExecutorInputs) -> None:
        """Raises MetaschedError for an address that is none, or another machine's without TLS."""
        SchedulerAddress.parse(wanted.address)

    def __call__(self, wanted: ExecutorInputs) -> Runner:
        """A runner. Raises what `check` does, MetaschedError where the extra `dask` is not installed, and
        ResourceError when nobody answers there.
        """
        settings = ClusterSettings()
        return ClusterRunner(Connection(SchedulerAddress.parse(wanted.address), settings.patience_s), settings)


executor = DaskExecutor()
