"""A compiled network as a folder that runs with NumPy alone: a Python file, machine code, and packed weights."""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from metasched.compiler.cpu.emit import runtime
from metasched.compiler.cpu.emit.steps import STEP, STEPS, STEPS_MODULE
from metasched.compiler.cpu.emit.thread_pool import LAUNCH_FUNCTION, RESET_FUNCTION
from metasched.compiler.cpu.first_use import import_code_generator
from metasched.graph.errors import NetworkError
from metasched.graph.executable import Executable
from metasched.graph.execution_plan import ExecutionPlan
from metasched.graph.ir import ValueType
from metasched.runtime.export.artefact import EXPORTED_MACHINE, cpu_flags, inlined_loader
from metasched.target import Target

_LOADER_IMPORT = "from metasched.runtime.export.loader import Image, _dtype, _require\n"
_POOL_IMPORT = "from metasched.runtime.shared_pool import PoolCode, shared_pool\n"
_FUTURE = "from __future__ import annotations\n"
# A file of no bytes cannot be mapped.
_NO_WEIGHTS = b"\0"


def export_network(executable: Executable, name: str, target: Target, folder: str | Path) -> Path:
    """Write a network's files into a folder, which is made, and return its path.

    `network.py` has the function `run`; it reads `network.json`, `code.bin` and `weights.bin` beside it. Raises
    NetworkError on other machines than Linux on x86-64, and where the folder has other things in it.
    """
    if platform.system() != "Linux" or platform.machine() != EXPORTED_MACHINE:
        raise NetworkError(
            f"export writes machine code for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
        )
    folder = Path(folder)
    plan = executable.plan
    description, code = _described(plan, name, target)
    files = {
        "network.py": _source(name).encode(),
        "code.bin": code,
        "network.json": json.dumps(description).encode(),
        "weights.bin": executable.weights.memory.bytes.data if executable.weights.nbytes else _NO_WEIGHTS,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [path.name for path in folder.iterdir() if path.name not in {*files, "__pycache__"}]
        if others:
            raise NetworkError(f"{folder} has other files, such as {others[0]}\n  hint: export to a new folder")
        for file, data in files.items():
            _write(folder / file, data)
    except OSError as error:
        raise NetworkError(f"{folder} cannot be written: {error.strerror}") from error
    return folder


def _write(path: Path, data: Any) -> None:
    """Write a file whole or not at all: another process may be running the one that is there."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
        new = Path(folder, path.name)
        new.write_bytes(data)
        new.replace(path)


def _described(plan: ExecutionPlan, name: str, target: Target) -> tuple[dict[str, Any], bytes]:
    """What `network.json` says, and the machine code that it is about."""
    import_code_generator()
    from metasched.compiler.cpu.codegen import compile_text

    parallel = any(code.parallel for code in plan.codes)
    pool = compile_text(runtime.PROCESS_MODULE, target.with_threads(1)).data if parallel else b""
    table = compile_text(STEPS_MODULE, target.with_threads(1)).data
    pieces = [table, pool, *(code.data for code in plan.codes)]
    code = b"".join(pieces)
    description = {
        "name": name,
        "machine": EXPORTED_MACHINE,
        "features": cpu_flags(target),
        "inputs": _types(plan.inputs),
        "outputs": _types(plan.outputs),
        "results": [{"written": r.written, "copied": r.copied} for r in plan.results],
        "arena_bytes": plan.arena.nbytes,
        "weight_bytes": plan.weight_bytes,
        "code_hash": hashlib.sha256(code).hexdigest(),
        "code_bytes": [len(piece) for piece in pieces],
        "state": runtime.STATE,
        "slots": runtime.SLOTS,
        "pool_functions": runtime.PROCESS_FUNCTIONS,
        "pool_reset": RESET_FUNCTION,
        "pool_slots": [(runtime.LAUNCH, LAUNCH_FUNCTION), (runtime.ALLOWED, runtime.ALLOWED_FUNCTION)],
        "step": STEP,
        "run": STEPS,
        "nodes": plan.nodes,
        "steps": plan.steps,
        "places": plan.places,
    }
    return description, code


def _types(values: Sequence[tuple[str, ValueType]]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(name, type_.dtype.numpy.name, type_.shape) for name, type_ in values]


def _source(name: str) -> str:
    """`network.py`: the loader's source, with what it imports of this package in its place."""
    own = resources.files("metasched.runtime").joinpath("export", "network_loader.py").read_text()
    docstring, _, rest = own.partition(_FUTURE)
    loader = inlined_loader().partition(_FUTURE)[2]
    rest = rest.replace(_LOADER_IMPORT, loader).replace(_POOL_IMPORT, "")
    made = "run = ExportedNetwork(Path(__file__).resolve().parent)"
    return f"{docstring}# The network {name!r}.\n{_FUTURE}{rest}\n\n{made}\n"
