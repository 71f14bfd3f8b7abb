"""What a connection makes of errors of the client: a scheduler that is gone is a lack, all else a mistake of ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from metasched.errors import ResourceError
from metasched.measure.cluster import connection
from metasched.measure.cluster.address import SchedulerAddress

LOST = "the scheduler at tcp://127.0.0.1:9 does not answer: "


class Client:
    scheduler: Any = SimpleNamespace(identity=None)
    raised: Exception

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def sync(self, *_: Any, **__: Any) -> None:
        raise self.raised


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> connection.Connection:
    monkeypatch.setattr(connection, "require_distributed", lambda: SimpleNamespace(Client=Client))
    return connection.Connection(SchedulerAddress.parse("127.0.0.1:9"), 1.0)


@pytest.mark.parametrize(
    "error", [OSError("in <TCP>: Stream is closed"), TimeoutError("after 30 s"), RuntimeError("IOLoop is closed")]
)
def test_a_scheduler_that_is_gone_is_a_lack(
    connected: connection.Connection, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(Client, "raised", error, raising=False)
    with pytest.raises(ResourceError, match=f"^{LOST}{error}$"):
        connected.machines()


def test_so_is_a_client_that_gave_up(connected: connection.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "scheduler", None)
    with pytest.raises(ResourceError, match=f"^{LOST}the connection is closed$"):
        connected.machines()


def test_a_mistake_of_ours_is_none(connected: connection.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "raised", TypeError("identity() got an unexpected keyword argument"), raising=False)
    with pytest.raises(TypeError, match="unexpected keyword"):
        connected.machines()
