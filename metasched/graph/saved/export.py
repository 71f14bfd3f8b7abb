"""A compiled network as a folder that runs with NumPy alone: a Python file, machine code, and packed weights."""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from metasched.compiler.cpu.emit import runtime
from metasched.compiler.cpu.emit.steps import LOOPS_MODULE, STEP, STEPS, STEPS_MODULE
from metasched.compiler.cpu.emit.thread_pool import LAUNCH_FUNCTION, RESET_FUNCTION
from metasched.compiler.cpu.first_use import import_code_generator
from metasched.graph.buckets.forms import forms_to_json
from metasched.graph.errors import NetworkError
from metasched.graph.running.execution_plan import ExecutionPlan
from metasched.graph.running.steps import ACTION_FUNCTIONS
from metasched.graph.saved.exported_parts import NetworkExport, join_weights
from metasched.graph.signature import Signature
from metasched.graph.value_type import ValueType
from metasched.runtime.export.artefact import EXPORTED_MACHINE, inlined_loader
from metasched.runtime.export.instruction_sets import cpu_flags
from metasched.target import CACHE_LINE, Target

_LOADER_IMPORT = "from metasched.runtime.export.loader import Image, _dtype, _memory, _require\n"
_LOCKS_IMPORT = "from metasched.runtime.child_locks import lock_of_calls\n"
_POOL_IMPORT = "from metasched.runtime.shared_pool import PoolCode, shared_pool\n"
_FUTURE = "from __future__ import annotations\n"
# A file of no bytes cannot be mapped.
_NO_WEIGHTS = b"\0"


def export_network(network: NetworkExport, target: Target, folder: str | Path) -> Path:
    """Write a network's files into a folder, which is made, and return its path.

    `network.py` has the function `run`; it reads `network.json`, `code.bin` and `weights.bin` beside it. Raises
    NetworkError on other machines than Linux on x86-64, for a target with instruction sets that an export cannot ask
    for, and where the folder has other things in it.
    """
    if platform.system() != "Linux" or platform.machine() != EXPORTED_MACHINE:
        raise NetworkError(
            f"export writes machine code for Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
        )
    folder = Path(folder)
    weights = join_weights([member.executable for member in network.members])
    description, code = _describe_network(network, weights.plans, target)
    files: dict[str, Sequence[Any]] = {
        "network.py": [_source(network.signature.name).encode()],
        "code.bin": [code],
        "network.json": [json.dumps(description).encode()],
        "weights.bin": [part for piece in weights.pieces for part in (piece.data, bytes(-len(piece) % CACHE_LINE))],
    }
    if not description["weight_bytes"]:
        files["weights.bin"] = [_NO_WEIGHTS]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [path.name for path in folder.iterdir() if path.name not in {*files, "__pycache__"}]
        if others:
            raise NetworkError(f"{folder} has other files, such as {others[0]}", hint="export to a new folder")
        for file, data in files.items():
            _write(folder / file, data)
    except OSError as error:
        raise NetworkError(f"{folder} cannot be written: {error.strerror}") from error
    return folder


def _write(path: Path, parts: Sequence[Any]) -> None:
    """Write a file whole or not at all: another process may be running the one that is there."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
        new = Path(folder, path.name)
        with new.open("wb") as file:
            for part in parts:
                file.write(part)
        new.replace(path)


def _describe_network(
    network: NetworkExport, plans: Sequence[ExecutionPlan], target: Target
) -> tuple[dict[str, Any], bytes]:
    """The content of `network.json`, and the machine code that it describes."""
    import_code_generator()
    from metasched.compiler.cpu.codegen import compile_text

    parallel = any(code.parallel for plan in plans for code in plan.codes)
    pool = compile_text(runtime.PROCESS_MODULE, target.with_threads(1)).data if parallel else b""
    has_loops = any(step < 0 for plan in plans for step in plan.steps)
    table = compile_text(LOOPS_MODULE if has_loops else STEPS_MODULE, target.with_threads(1)).data
    # Kernels that several members run are there once.
    numbers = {data: n for n, data in enumerate(dict.fromkeys(code.data for plan in plans for code in plan.codes))}
    pieces = [table, pool, *numbers]
    code = b"".join(pieces)
    signature = network.signature
    members = [_member(member.signature, plan, numbers) for member, plan in zip(network.members, plans, strict=True)]
    description = {
        "name": signature.name,
        "machine": EXPORTED_MACHINE,
        "features": cpu_flags(target, NetworkError),
        "inputs": _open_types(signature, signature.given, network.inputs),
        "outputs": _open_types(signature, signature.returned, network.outputs),
        "states": _types(tuple(signature.held.items())),
        "weight_bytes": plans[0].weight_bytes,
        "code_hash": hashlib.sha256(code).hexdigest(),
        "code_bytes": [len(piece) for piece in pieces],
        **_functions(has_loops=has_loops),
        "members": members,
        "parts": _parts(network),
    }
    return description, code


def _functions(*, has_loops: bool) -> dict[str, Any]:
    """The names in the machine code that the loader looks up, and where it puts them."""
    return {
        "state": runtime.STATE,
        "slots": runtime.SLOTS,
        "pool_functions": runtime.PROCESS_FUNCTIONS,
        "pool_reset": RESET_FUNCTION,
        "pool_slots": [(runtime.LAUNCH, LAUNCH_FUNCTION), (runtime.ALLOWED, runtime.ALLOWED_FUNCTION)],
        "step": STEP,
        "run": STEPS,
        "actions": [(int(action), name) for action, name in ACTION_FUNCTIONS.items() if has_loops],
    }


def _parts(network: NetworkExport) -> list[dict[str, Any]]:
    """The sizes that each part is for, and the numbers of its members among all."""
    numbers = iter(range(len(network.members)))
    return [
        {
            "sizes": {name: [sizes[0], sizes[-1], sizes.step] for name, sizes in part.sizes.items()},
            "members": [next(numbers) for _ in part.members],
            "forms": None if part.forms is None else forms_to_json(part.forms),
        }
        for part in network.parts
    ]


def _member(signature: Signature, plan: ExecutionPlan, numbers: Mapping[bytes, int]) -> dict[str, Any]:
    growth = signature.growth
    codes = [numbers[code.data] for code in plan.codes]
    return {
        "inputs": _types(plan.inputs),
        "labels": list(signature.returned),
        "results": [
            [r.type.dtype.numpy.name, r.type.shape, r.written is not None, r.copied, r.count] for r in plan.results
        ],
        "arena_bytes": plan.arena.nbytes,
        "nodes": plan.nodes,
        "steps": [step if step < 0 else codes[step] for step in plan.steps],
        "places": plan.places,
        "numbers": plan.numbers,
        "moving": plan.moving,
        "kept": [[k.root, k.found, k.nbytes] for k in plan.kept],
        "moved": [
            [m.state, m.name, m.offset, m.input, m.position.input, m.position.lowest, m.position.highest, m.step]
            for m in plan.moved
        ],
        "growth": None if growth is None else [growth.length, growth.longest, dict(growth.values)],
    }


def _open_types(
    signature: Signature, values: Mapping[str, ValueType], dims: Mapping[str, Sequence[str]]
) -> list[tuple[str, str, list[int | str]]]:
    """Types of inputs or outputs, with what is open of their shapes as a text."""
    growth = signature.growth
    found = []
    for name, type_ in values.items():
        named = [own or n for own, n in zip(dims.get(name) or [""] * type_.rank, type_.shape, strict=True)]
        if growth is not None and name in growth.values:
            grown = zip(growth.values[name], named, strict=True)
            named = [n if offset is None else f"{growth.length}+{offset}" for offset, n in grown]
        found.append((name, type_.dtype.numpy.name, named))
    return found


def _types(values: Sequence[tuple[str, ValueType]]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(name, type_.dtype.numpy.name, type_.shape) for name, type_ in values]


def _source(name: str) -> str:
    """`network.py`: the loader's source, with what it imports of this package in its place."""
    runtime_files = resources.files("metasched.runtime")
    own = runtime_files.joinpath("export", "network_loader.py").read_text()
    locks = runtime_files.joinpath("child_locks.py").read_text().partition(_FUTURE)[2]
    docstring, _, rest = own.partition(_FUTURE)
    loader = inlined_loader().partition(_FUTURE)[2]
    rest = rest.replace(_LOADER_IMPORT, loader).replace(_POOL_IMPORT, "").replace(_LOCKS_IMPORT, locks)
    made = "run = ExportedNetwork(Path(__file__).resolve().parent)"
    return f"{docstring}# The network {name!r}.\n{_FUTURE}{rest}\n\n{made}\n"
