"""What workers need is imported ahead; where that fails, each worker tells it, and the log of the server says so."""

from __future__ import annotations

import gc
import logging
import sys

import pytest

from metasched.measure.workers import fork_server


class _Server:
    def __init__(self, settings: fork_server.ServerSettings) -> None:
        self.settings = settings

    def serve(self) -> str:
        return "in a worker"


def test_an_import_that_fails_is_logged_and_workers_start_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing() -> None:
        raise ImportError("no such part")

    monkeypatch.setattr(fork_server, "ForkServer", _Server)
    monkeypatch.setattr(fork_server, "die_with", lambda parent: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(sys, "argv", ["", '{"parent": 1, "connection": 0}'])
    with caplog.at_level(logging.WARNING, logger="metasched"):
        served: object = fork_server.serve_workers(missing)
    assert served == "in a worker"
    assert "no such part" in caplog.text
