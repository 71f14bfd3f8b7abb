"""Whether what can be made again is kept, in a folder that nobody else can write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from metasched.cache_folder import CACHE, NoCacheFolder, cache_folder
from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding, Standing

_ELSEWHERE = f"set {CACHE} to a folder of yours"


def check(examined: Examined) -> Finding:
    """The folder for tuned kernels, object code and calibrations."""
    del examined
    try:
        folder = cache_folder()
    except NoCacheFolder as error:
        return Finding(Standing.NOTE, str(error), _ELSEWHERE, {"folder": None})
    facts = {"folder": str(folder)}
    nearest = _nearest(folder)
    if not os.access(nearest, os.W_OK | os.X_OK):
        return Finding(Standing.PROBLEM, f"{folder} cannot be written: every start compiles anew", _ELSEWHERE, facts)
    if folder.exists() and folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        text = f"others can write {folder}, so networks' object code is not kept there"
        return Finding(Standing.NOTE, text, f"chmod go-w {folder}", facts)
    return Finding(Standing.GOOD, f"{folder}", facts=facts)


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(path for path in (folder, *folder.parents) if path.exists())
