"""Packages of the tests' own, installed into a folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

# As pip does, without what else that looks at: its wheel, unpacked, is what is installed of a package in Python alone.
_INSTALL = """
import sys, zipfile
from setuptools import build_meta
site = sys.argv[1]  # setuptools has arguments of its own put there
zipfile.ZipFile(build_meta.build_wheel(".")).extractall(site)
"""


def install(package: Path, folder: Path) -> Path:
    """Where a package is installed, in `site` of a folder: what is found there by its name and its entry points."""
    source, site = folder / "source", folder / "site"
    shutil.copytree(package, source)  # setuptools leaves its own files beside what it builds
    subprocess.run(
        [sys.executable, "-c", _INSTALL, str(site)], cwd=source, check=True, capture_output=True, timeout=120
    )
    return site
