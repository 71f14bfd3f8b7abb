"""Writing a kernel as one Python file: the loader's source, and the machine code as text."""

from __future__ import annotations

import base64
import platform
import textwrap
import zlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from metasched.compiler.cpu.codegen import compile_text
from metasched.compiler.cpu.emit import runtime
from metasched.errors import KernelError
from metasched.runtime.compiled import KernelCode
from metasched.runtime.export.launcher import LAUNCHER

# Instruction sets that code may rely on, by LLVM's name and by the kernel's in /proc/cpuinfo.
_FEATURES = {
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512cd": "avx512cd",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
}
_MACHINE = "x86_64"


def export(code: KernelCode, path: str | Path, held: Sequence[np.ndarray[Any, Any]] = ()) -> Path:
    """Write a compiled kernel as a Python file that needs NumPy and nothing else, and return its path.

    `held` are its last inputs, where these are to be in the file.

    The file defines a function of the kernel's name, `PARAMETERS`, and the loader. It runs on Linux on x86-64, on CPUs
    with the instruction sets of the kernel's target. A parallel loop starts its threads each time.

    Raises KernelError on another kind of machine, and for a path that is no `.py` file.
    """
    path = Path(path)
    if path.suffix != ".py":
        raise KernelError(f"a kernel is exported as a Python file, and `{path.name}` is not named `.py`")
    if platform.system() != "Linux" or platform.machine() != _MACHINE:
        raise KernelError(
            f"export writes machine code for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
        )
    path.write_text(_source(code, held))
    return path


def _source(code: KernelCode, held: Sequence[np.ndarray[Any, Any]]) -> str:
    target = code.code.target
    loader = resources.files(__package__).joinpath("loader.py").read_text()
    features = sorted(_FEATURES[f] for f in target.features if f in _FEATURES)
    parameters = "".join(
        f"    ({p.name!r}, {p.dtype.numpy.name!r}, {p.shape!r}, {p.is_output}),\n" for p in code.parameters
    )
    launcher = compile_text(LAUNCHER, target)
    table = (
        runtime.FIRST_WORKER,
        runtime.STATE,
        (runtime.LAUNCH, runtime.LAUNCH_FUNCTION),
        (runtime.ALLOWED, runtime.ALLOWED_FUNCTION),
    )
    objects = "".join(f"    {_text(data)},\n" for data in (code.code.data, launcher.data))
    arrays = "".join(f"    {_text(array.tobytes())},\n" for array in held)
    return (
        f"{loader}\n\n"
        f"# name, dtype, shape (None for a scalar), whether it is an output\n"
        f"PARAMETERS = (\n{parameters})\n"
        f"FEATURES = {tuple(features)!r}\n"
        f"_OBJECTS = (\n{objects})\n"
        f"_TABLE = {table!r}\n"
        f"_HELD = (\n{arrays})\n"
        f"{code.name} = Kernel(\n"
        f"    {code.name!r}, PARAMETERS, _OBJECTS, {code.entry!r}, _TABLE, {_MACHINE!r}, FEATURES, _HELD\n)\n"
    )


def _text(data: bytes) -> str:
    """Bytes as a Python string over several lines."""
    lines = textwrap.wrap(base64.b85encode(zlib.compress(data, 9)).decode(), 100)
    return "(\n" + "\n".join(f"        {line!r}" for line in lines) + "\n    )"
