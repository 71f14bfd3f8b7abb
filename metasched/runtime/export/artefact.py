"""Writing a kernel as one Python file: the loader's source, and the machine code as text."""

from __future__ import annotations

import base64
import platform
import sys
import textwrap
import zlib
from collections.abc import Sequence
from importlib import resources
from keyword import iskeyword
from pathlib import Path
from typing import Any

import numpy as np

from metasched.compiler.cpu.codegen import compile_text
from metasched.compiler.cpu.emit import runtime
from metasched.compiler.cpu.emit.thread_pool import LAUNCH_FUNCTION, RESET_FUNCTION
from metasched.errors import KernelError
from metasched.runtime.compiled import KernelCode
from metasched.runtime.export.instruction_sets import cpu_flags

# What an exported file imports, and what that imports.
_RESERVED_MODULES = frozenset({"numpy", "ml_dtypes", *sys.stdlib_module_names})
EXPORTED_MACHINE = "x86_64"
_FUTURE_IMPORT = "from __future__ import annotations\n"
_POOL_IMPORT = "from metasched.runtime.shared_pool import PoolCode, shared_pool\n"


def export(code: KernelCode, path: str | Path, held: Sequence[np.ndarray[Any, Any]] = ()) -> Path:
    """Write a compiled kernel as a Python file that needs NumPy and nothing else, and return its path.

    `held` are its last inputs, where these are to be in the file.

    The file defines a function of the kernel's name, `PARAMETERS`, and the loader. It runs on Linux on x86-64, on CPUs
    with the instruction sets of the kernel's target. Its parallel loops
    run on the pool of threads that the process has, or on one that it brings.

    Folders that are missing are made. Raises KernelError on another kind of machine, for a path that is no `.py` file
    or cannot be written, for a name that Python cannot import or that hides another module, and for a target with
    instruction sets that an export cannot ask for.
    """
    path = Path(path)
    _require_module(path)
    if platform.system() != "Linux" or platform.machine() != EXPORTED_MACHINE:
        raise KernelError(
            f"export writes machine code for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
        )
    source = _source(code, held)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    except OSError as error:
        raise KernelError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _require_module(path: Path) -> None:
    """Raise KernelError unless a file can be imported by its name, beside what it imports itself."""
    if path.suffix != ".py":
        raise KernelError(f"a kernel is exported as a Python file, and `{path.name}` is not named `.py`")
    if not path.stem.isidentifier() or iskeyword(path.stem):
        raise KernelError(
            f"`{path.name}` cannot be imported: `{path.stem}` is no name in Python",
            hint="name it by letters, digits and `_`, and no digit first",
        )
    if path.stem in _RESERVED_MODULES:
        raise KernelError(
            f"`{path.name}` would hide the module `{path.stem}` from all that is imported beside it",
            hint="name it after the kernel",
        )


def _source(code: KernelCode, held: Sequence[np.ndarray[Any, Any]]) -> str:
    target = code.code.target
    features = cpu_flags(target)
    parameters = "".join(
        f"    ({p.name!r}, {p.dtype.numpy.name!r}, {p.shape!r}, {p.is_output}, {p.below}),\n" for p in code.parameters
    )
    pool = _text(compile_text(runtime.PROCESS_MODULE, target).data) if code.parallel else '""'
    table = (
        runtime.STATE,
        runtime.SLOTS,
        ((runtime.LAUNCH, LAUNCH_FUNCTION), (runtime.ALLOWED, runtime.ALLOWED_FUNCTION)),
    )
    arrays = "".join(f"    {_text(array.tobytes())},\n" for array in held)
    return (
        f"{inlined_loader()}\n\n"
        f"# name, dtype, shape (None for a scalar), whether it is an output, what indices in it are below\n"
        f"PARAMETERS = (\n{parameters})\n"
        f"FEATURES = {tuple(features)!r}\n"
        f"_CODE = {_text(code.code.data)}\n"
        f"_POOL = PoolText({pool}, {runtime.PROCESS_FUNCTIONS!r}, {RESET_FUNCTION!r})\n"
        f"_TABLE = {table!r}\n"
        f"_HELD = (\n{arrays})\n"
        f"{code.name} = ExportedKernel(\n"
        f"    {code.name!r}, PARAMETERS, _CODE, {code.entry!r}, _POOL, _TABLE,\n"
        f"    {EXPORTED_MACHINE!r}, FEATURES, _HELD\n)\n"
    )


def inlined_loader() -> str:
    """The loader's source, with what it imports of this package in its place."""
    runtime_files = resources.files("metasched.runtime")
    pool = runtime_files.joinpath("shared_pool.py").read_text().partition(_FUTURE_IMPORT)[2]
    return runtime_files.joinpath("export", "loader.py").read_text().replace(_POOL_IMPORT, pool)


def _text(data: bytes) -> str:
    """Bytes as a Python string over several lines."""
    lines = textwrap.wrap(base64.b85encode(zlib.compress(data, 9)).decode(), 100)
    return "(\n" + "\n".join(f"        {line!r}" for line in lines) + "\n    )"
