"""The releases of Numba and llvmlite that metasched makes its machine code with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

# What pyproject.toml asks for as well, which a test compares; `make test-oldest` runs the tests with them. The LLVM of
# llvmlite 0.47 and before ends the process over code for some other CPUs.
OLDEST: Mapping[str, str] = MappingProxyType({"numba": "0.66.0", "llvmlite": "0.48.0"})


class UnsupportedRelease(ImportError):
    """A release of a package that metasched cannot work with."""


def require(installed: Callable[[str], str] = version) -> None:
    """Raise UnsupportedRelease where Numba or llvmlite is too old. `installed` gives the release of a package.

    A package that is not there says so itself, when it is imported.
    """
    for package, needed in OLDEST.items():
        try:
            found = installed(package)
        except PackageNotFoundError:
            continue
        if _numbers(found) < _numbers(needed):
            raise UnsupportedRelease(
                f"metasched needs {package} {needed} or newer, and {found} is installed: its LLVM does not take what "
                f"metasched emits. `pip install --upgrade numba` brings both Numba and its llvmlite"
            )


def _numbers(release: str) -> tuple[int, ...]:
    """`0.66.1` or `0.67.0rc1` as numbers to compare; what is no number ends them."""
    found = re.match(r"\d+(\.\d+)*", release)
    return tuple(map(int, found[0].removesuffix(".0").split("."))) if found else ()
