"""What a machine can do at most, by what it measured of itself or without."""

from __future__ import annotations

from pathlib import Path

import pytest

import metasched as ms
from metasched.calibration import store
from metasched.calibration.calibration import FORMAT
from metasched.report.limits import USUAL_CLOCK_HZ, StageLimits, ceilings_of
from tests.support.calibrations import TARGET, made_up


def test_a_calibration_of_an_older_version_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path))
    usual = ceilings_of(TARGET)
    path = store.save(made_up(loads=0.5))
    assert ceilings_of(TARGET).measured
    path.write_text(path.read_text().replace(f'"format": {FORMAT}', '"format": 0'))
    func = ms.parse_program("program p[N=8](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n").func
    with pytest.warns(ms.CacheWarning, match="another version of metasched"):
        limits = StageLimits(func, TARGET)
    assert limits.ceilings == usual
    assert (usual.measured, usual.clock_hz) == (False, USUAL_CLOCK_HZ)
