"""Addresses of schedulers: of this machine, or with TLS."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from metasched.errors import MetaschedError
from metasched.measure.cluster.address import SchedulerAddress, TLSFiles, is_loopback
from metasched.measure.executor_registry import OpenedOnce


@pytest.fixture
def files(tmp_path: Path) -> str:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text("PEM")
    return "&".join(f"{name}={tmp_path / name}" for name in ("ca", "cert", "key"))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("127.0.0.1:8786", "tcp://127.0.0.1:8786"),
        ("localhost:1", "tcp://localhost:1"),
        ("tcp://127.8.0.1:8786", "tcp://127.8.0.1:8786"),
        ("[::1]:8786", "tcp://[::1]:8786"),
    ],
)
def test_of_this_machine(text: str, printed: str) -> None:
    address = SchedulerAddress.parse(text)
    assert str(address) == printed
    assert address.listens_at == address.host
    assert address.security() is None


@pytest.mark.parametrize("host", ["10.0.0.7", "team.example", "0.0.0.0", "[fe80::1]", "localhost.x", "127.0.0.1.x"])
def test_another_machine_takes_tls(host: str, files: str) -> None:
    with pytest.raises(MetaschedError, match="is not this machine, and no files for TLS are given"):
        SchedulerAddress.parse(f"{host}:8786")
    with pytest.raises(MetaschedError, match="asks for TLS"):
        SchedulerAddress.parse("tls://127.0.0.1:8786")
    address = SchedulerAddress.parse(f"{host}:8786?{files}")
    assert str(address).startswith("tls://")
    assert address.listens_at is None
    assert not is_loopback(host)
    security = address.security()
    assert security.require_encryption
    assert security.tls_ca_file.endswith("/ca")
    assert security.tls_worker_key == security.tls_client_key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no address of a dask scheduler"),
        ("localhost", "is no address of a dask scheduler"),
        (":8786", "is no address of a dask scheduler"),
        ("localhost:many", "is no address of a dask scheduler"),
        ("ftp://localhost:1", "is no address of a dask scheduler"),
        ("localhost:1?colour=red", "there is no setting `colour`"),
        ("localhost:1?ca=a.pem", "`cert` is missing"),
        ("localhost:1?ca=/no/a.pem&cert=b&key=c", "there is no file `/no/a.pem`, given as `ca`"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(MetaschedError, match=re.escape(message)):
        SchedulerAddress.parse(text)


def test_no_files_are_no_tls() -> None:
    assert TLSFiles.from_paths(None, None, None) is None


def test_the_executor_refuses_before_it_connects() -> None:
    with pytest.raises(MetaschedError, match="is not this machine"):
        OpenedOnce("dask://10.0.0.7:8786", 1).open_runner()
