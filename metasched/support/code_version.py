"""The versions that decide the machine code a trace becomes."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def code_version() -> str:
    """The versions that decide the machine code a trace becomes, as text: metasched, Numba and llvmlite."""
    return " ".join(f"{package} {_version_of(package)}" for package in ("metasched", "numba", "llvmlite"))


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "uninstalled"
