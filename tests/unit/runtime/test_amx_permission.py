"""Whether the system gives tile registers is asked without asking for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import metasched as ms
from metasched.runtime import amx_permission
from metasched.runtime.amx_permission import tiles_are_given, tiles_are_refused
from tests.support.targets import AVX512, SAPPHIRE


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    tiles_are_given.cache_clear()
    yield
    tiles_are_given.cache_clear()


def test_no_tiles_without_a_cpu_that_has_them() -> None:
    has = "amx-tile" in ms.Target.detect().features
    assert tiles_are_given() in ({False, True} if has else {False})


@pytest.mark.parametrize(("name", "value"), [("sys.platform", "darwin"), ("platform.machine", lambda: "aarch64")])
def test_other_systems_are_not_asked(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: pytest.fail("it was asked"))
    monkeypatch.setattr(name, value)
    assert tiles_are_given() is False


def test_a_system_refuses_tiles_only_of_its_own_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled here for another CPU does not depend on this one."""
    for here, given, refused in ((SAPPHIRE, True, False), (SAPPHIRE, False, True), (AVX512, False, False)):
        monkeypatch.setattr(ms.Target, "detect", lambda threads, here=here: here)
        monkeypatch.setattr(amx_permission, "tiles_are_given", lambda given=given: given)
        assert tiles_are_refused() == refused
