"""Which threading layer Numba has."""

from __future__ import annotations

from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding, Standing
from metasched.support.numba_internals import openmp_library


def check(examined: Examined) -> Finding:
    """Our kernels bring their threads with them; Numba's own functions that call them need a layer."""
    del examined
    try:
        library = openmp_library()
    except (OSError, ImportError) as error:
        return Finding(
            Standing.NOTE,
            f"Numba's OpenMP layer cannot be used: {error}",
            "kernels do not need it; `@njit(parallel=True)` functions that call them do "
            "(Debian and Ubuntu: apt-get install libgomp1)",
            {"openmp": None},
        )
    return Finding(Standing.GOOD, "Numba's OpenMP layer is there", facts={"openmp": str(library)})
