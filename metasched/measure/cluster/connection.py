"""A client's connection to the scheduler: what is sent to a machine, and which machines there are."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from metasched.errors import ResourceError
from metasched.measure.cluster.address import SchedulerAddress
from metasched.measure.cluster.dask_package import require_distributed
from metasched.measure.cluster.payloads import Payload
from metasched.measure.cluster.remote_calls import TIMING

# Called with what a function gave, or with None where its machine was lost.
Done = Callable[[Payload | None], None]


class Connection:
    """A connection to a scheduler, from which machines come and go.

    Raises ResourceError where nobody answers for `patience_s` seconds.
    """

    def __init__(self, address: SchedulerAddress, patience_s: float) -> None:
        self.address = address
        try:
            self._client = _client_class()(
                str(address), timeout=patience_s, security=address.security(), set_as_default=False
            )
        except (OSError, TimeoutError) as error:
            raise ResourceError(
                f"no scheduler answers at {address}: {error}",
                hint=f"`dask scheduler --host {address.host} --port {address.port}` starts one"
                f"{'' if address.tls is None else ', with the files of TLS'}, "
                f"and `metasched worker {address}` joins it",
            ) from error
        self.topic = f"metasched-{uuid.uuid4().hex}"

    def on_begun(self, begun: Callable[[int], None]) -> None:
        """Have a function called with the number of a measurement when a machine begins with it."""
        self._client.subscribe_topic(self.topic, lambda event: begun(int(event[1]["begun"])))

    def machines(self) -> dict[str, float]:
        """The workers with our resource, by address, with when each was last heard of by the scheduler's clock.

        Raises ResourceError where the scheduler is gone.
        """
        scheduler = self._client.scheduler
        if scheduler is None:  # dask gave up reconnecting
            raise ResourceError(f"the scheduler at {self.address} does not answer: the connection is closed")
        try:
            found = self._client.sync(scheduler.identity, n_workers=-1)
        except (OSError, RuntimeError) as error:  # lost connections and times; dask's loop or connections are closed
            raise ResourceError(f"the scheduler at {self.address} does not answer: {error}") from error
        workers = found["workers"].items()
        return {str(a): float(w["last_seen"]) for a, w in workers if TIMING in w.get("resources", {})}

    def send(
        self,
        machine: str,
        resource: str | None,
        function: Callable[..., Payload],
        arguments: tuple[Any, ...],
        done: Done,
    ) -> Callable[[], None]:
        """Have a machine call a function, once it has the resource free; `done` is called in another thread.

        Returns what cancels it.
        """
        future = self._client.submit(
            function,
            *arguments,
            key=f"metasched-{function.__name__}-{uuid.uuid4().hex}",
            workers=[machine],
            resources=None if resource is None else {resource: 1},
            pure=False,
        )

        def ended(ended_future: Any) -> None:
            done(ended_future.result() if ended_future.status == "finished" else None)

        future.add_done_callback(ended)
        return lambda: _cancel(future)

    @property
    def is_open(self) -> bool:
        return bool(self._client.status != "closed")

    def close(self) -> None:
        """Leave the scheduler; a second call does nothing."""
        self._client.close()


def _client_class() -> Any:
    """A client of dask that ends its thread where nobody answers it; dask's own goes on running."""

    class Client(require_distributed().Client):  # type: ignore[misc]  # dask is imported when it is needed
        def start(self, **settings: Any) -> None:
            try:
                super().start(**settings)
            except BaseException:
                self.close()
                self._loop_runner.stop()
                raise

    return Client


def _cancel(future: Any) -> None:
    future.cancel()
