"""The calibrations of a user's machines: a text file for each kind of machine, in the user's cache folder."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from pathlib import Path

from metasched.cache_folder import CACHE, NoCacheFolder, cache_folder
from metasched.calibration.calibration import CalibrationError, MachineCalibration, OldCalibration
from metasched.cost.core import Core, default_core
from metasched.errors import CacheWarning, callers_level
from metasched.target import Target

_CALIBRATE_HINT = "`metasched calibrate` measures anew, or remove the file to use the default constants"


def core_of(target: Target) -> Core:
    """The constants of a target: those that its machine has measured, if it has; else the defaults.

    The file of an older version of metasched is left alone, with a CacheWarning. Raises CalibrationError for a file
    that cannot be read or is no calibration.
    """
    calibration = usable_calibration(target)
    return default_core(target) if calibration is None else calibration.core(target.threads)


def usable_calibration(target: Target) -> MachineCalibration | None:
    """As `load`, but None for another version's, with a CacheWarning."""
    try:
        return load(target)
    except OldCalibration as error:
        warnings.warn(str(error), CacheWarning, stacklevel=callers_level())
        return None


def load(target: Target) -> MachineCalibration | None:
    """The calibration of a kind of machine; None where there is none, or no folder for it.

    Raises OldCalibration for another version's, CalibrationError for a file that cannot be read, is no calibration, or
    is one of another machine.
    """
    try:
        path = calibration_file(target)
        text = path.read_text(encoding="utf-8")
    except (NoCacheFolder, FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(f"{path}: cannot be read: {error}", hint=_CALIBRATE_HINT) from error
    try:
        found = MachineCalibration.loads(text)
    except CalibrationError as error:
        raise type(error)(f"{path}: {error}", hint=_CALIBRATE_HINT) from error
    if _machine(found.target) != _machine(target):
        raise CalibrationError(f"{path}: it is of another machine: {found.target}", hint=_CALIBRATE_HINT)
    return found


def save(calibration: MachineCalibration) -> Path:
    """Keep a calibration, whole or not at all, in place of an older one. Returns the file.

    Raises CalibrationError where the folder cannot be written, NoCacheFolder where nothing says which it is.
    """
    path = calibration_file(calibration.target)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=path.name) as folder:
            new = Path(folder, path.name)
            new.write_text(calibration.dumps(), encoding="utf-8")
            new.replace(path)
    except OSError as error:
        raise CalibrationError(
            f"there can be no `{path}`: {error.strerror}", hint=f"set {CACHE} to a folder that can be written"
        ) from error
    return path


def calibration_file(target: Target) -> Path:
    """Where the calibration of a kind of machine is kept, whatever number of threads a target has."""
    digest = hashlib.sha256(_machine(target).encode()).hexdigest()[:12]
    name = "".join(c for c in target.name if c.isalnum() or c in "-_.")
    return cache_folder() / f"calibration-{name}-{digest}.json"


def _machine(target: Target) -> str:
    """What calibrations are told apart by: all of a target but the number of threads."""
    return str(target.with_threads(1))
