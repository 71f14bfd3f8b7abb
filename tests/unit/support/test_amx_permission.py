"""Whether the system gives tile registers is asked without asking for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import metasched as ms
from metasched.support.amx_permission import tiles_are_given


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    tiles_are_given.cache_clear()
    yield
    tiles_are_given.cache_clear()


def test_no_tiles_without_a_cpu_that_has_them() -> None:
    assert tiles_are_given() <= ("amx-tile" in ms.Target.detect().features)


@pytest.mark.parametrize(("name", "value"), [("sys.platform", "darwin"), ("platform.machine", lambda: "aarch64")])
def test_other_systems_are_not_asked(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: pytest.fail("it was asked"))
    monkeypatch.setattr(name, value)
    assert tiles_are_given() is False
