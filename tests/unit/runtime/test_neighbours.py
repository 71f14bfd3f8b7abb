"""Advice on OpenMP's spinning threads, by what is observed."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

from metasched.errors import BusyMachineWarning
from metasched.runtime import neighbours
from metasched.runtime.neighbours import SETTINGS, Surroundings, advice, surroundings, warn_of_neighbours
from metasched.runtime.threads import Layer

BUSY = Surroundings(Layer.OMP, (), threads=2, processors=2, idle=0.4)


def test_busy_neighbours_are_told_with_what_to_do() -> None:
    text = advice(BUSY)
    assert text.startswith("other processes leave 0.4 of 2 processors idle, and parallel loops take 2 threads.")
    assert "Set OMP_WAIT_POLICY=passive before Python starts" in text


@pytest.mark.parametrize(
    "quiet",
    [
        replace(BUSY, idle=1.9),
        replace(BUSY, idle=2.0, processors=16),
        replace(BUSY, threads=1),
        replace(BUSY, threads=4, idle=2.0),  # more threads than processors is what the user asked for
        replace(BUSY, layer=Layer.WORKQUEUE),
        replace(BUSY, layer=Layer.TBB),
        replace(BUSY, layer=None),
        *(replace(BUSY, settings=(name,)) for name in SETTINGS),
    ],
)
def test_nothing_is_said_where_there_is_nothing_to_say(quiet: Surroundings) -> None:
    assert advice(quiet) == ""


def test_what_is_observed() -> None:
    seen = surroundings(3, {"GOMP_SPINCOUNT": "0", "NUMBA_THREADING_LAYER": "workqueue"})
    assert seen.settings == ("GOMP_SPINCOUNT",)
    assert seen.threads == 3
    assert 0.0 <= seen.idle <= seen.processors


def test_it_is_a_warning_and_the_user_s_setting_is_the_user_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "surroundings", lambda _: BUSY)
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    with pytest.warns(BusyMachineWarning, match="OMP_WAIT_POLICY=passive"):
        warn_of_neighbours(2)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_neighbours(2)
