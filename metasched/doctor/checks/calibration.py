"""Whether this machine has measured itself."""

from __future__ import annotations

from metasched.calibration.calibration import CalibrationError, OldCalibration
from metasched.calibration.store import calibration_file, load
from metasched.doctor.examined import Examined
from metasched.doctor.finding import Fact, Finding, Standing

_MEASURE = "run `metasched calibrate`, with nothing else running; it takes some seconds"


def check(examined: Examined) -> Finding:
    """Whether there is a calibration, and whether it can be used."""
    try:
        found = load(examined.target)
    except OldCalibration as error:
        return Finding(Standing.NOTE, f"not used: {error}", _MEASURE, {"calibrated": False})
    except CalibrationError as error:
        return Finding(Standing.PROBLEM, str(error), _MEASURE, {"calibrated": False})
    if found is None:
        text = "estimates use constants of a common CPU: this machine has not measured itself"
        return Finding(Standing.NOTE, text, _MEASURE, {"calibrated": False})
    where = str(calibration_file(examined.target))
    facts: dict[str, Fact] = {"calibrated": True, "clock_hz": found.clock_hz, "file": where}
    return Finding(Standing.GOOD, f"measured at {found.clock_hz / 1e9:.2f} GHz, kept in {where}", facts=facts)
