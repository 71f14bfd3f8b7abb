"""A network that runs with NumPy alone: this file loads the machine code and the weights that lie beside it.

`run(x)` takes arrays by position or by name, and returns a new array, or a tuple of them. It needs Linux on x86-64 and
the instruction sets that the code was compiled for. For bfloat16 it needs ml_dtypes. Several threads may call it.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metasched.runtime.export.loader import Image, _dtype, _require
from metasched.runtime.shared_pool import PoolCode, shared_pool

_POINTER = ctypes.c_void_p
_STATUSES = 256
_NO_TILES = 3
# Of the roots of a call, the arena is the first, and the weights are the second.
_OWN_ROOTS = 2


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)


class ExportedNetwork:
    """The network in a folder. `inputs` and `outputs` are names, dtypes and shapes, in order."""

    def __init__(self, folder: Path) -> None:
        said = json.loads((folder / "network.json").read_text())
        _require(said["machine"], said["features"])
        self.name = str(said["name"])
        self.inputs = [(name, _dtype(dtype), tuple(shape)) for name, dtype, shape in said["inputs"]]
        self.outputs = [(name, _dtype(dtype), tuple(shape)) for name, dtype, shape in said["outputs"]]
        self._results = said["results"]
        self._arena_bytes = int(said["arena_bytes"])
        self._weights = self._mapped(folder / "weights.bin", int(said["weight_bytes"]))
        self._load_code(said, (folder / "code.bin").read_bytes())
        self._fill_table(said)
        self._arenas: list[np.ndarray[Any, Any]] = []

    def _mapped(self, path: Path, nbytes: int) -> np.ndarray[Any, Any]:
        """The weights: pages of the file, which processes share."""
        if path.stat().st_size != max(nbytes, 1):
            raise ImportError(f"{path} has not the {nbytes} bytes of {self.name}'s weights")
        return np.memmap(path, np.uint8, "r")

    def _load_code(self, said: dict[str, Any], data: bytes) -> None:
        if hashlib.sha256(data).hexdigest() != said["code_hash"]:
            raise ImportError(f"the machine code of {self.name} is damaged: it has another hash")
        pieces = []
        at = 0
        for size in said["code_bytes"]:
            pieces.append(data[at : at + size])
            at += size
        table, pool, *steps = pieces
        self._state = (ctypes.c_int64 * said["slots"])()
        if pool:
            found = shared_pool(lambda: _pool(pool, said["pool_functions"], said["pool_reset"]))
            for slot, function in said["pool_slots"]:
                self._state[slot] = found[function]
        self._images = [Image(step) for step in steps]
        for image in self._images:
            _POINTER.from_address(image.symbols[said["state"]]).value = ctypes.addressof(self._state)
        self._table_image = Image(table)
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, _POINTER, ctypes.c_int64, _POINTER)
        self._run = prototype(self._table_image.symbols[said["run"]])

    def _fill_table(self, said: dict[str, Any]) -> None:
        """The table of steps: each the address of its code, and where its arguments are."""
        flat = [number for step in said["places"] for place in step for number in place]
        self._arguments = (ctypes.c_int64 * max(len(flat), 1))(*flat)
        at = ctypes.addressof(self._arguments)
        entries: list[int] = []
        for image, places in zip(said["steps"], said["places"], strict=True):
            entries += (self._images[image].symbols[said["step"]], at)
            at += 16 * len(places)
        self._names = said["nodes"]
        self._table = (ctypes.c_int64 * max(len(entries), 1))(*entries)

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the network. Raises TypeError and ValueError for inputs that it does not take."""
        taken = [self._checked(spec, x) for spec, x in zip(self.inputs, self._ordered(inputs, named), strict=True)]
        made = [np.empty(shape, dtype) for _, dtype, shape in self.outputs]
        written = [array for array, result in zip(made, self._results, strict=True) if result["written"] is not None]
        arena = self._arenas.pop() if self._arenas else self._new_arena()
        addresses = [_address(array) for array in (arena, self._weights, *taken, *written)]
        roots = (ctypes.c_int64 * len(addresses))(*addresses)
        status = self._run(self._table, len(self._names), roots)
        if not status:
            for array, result in zip(made, self._results, strict=True):
                if result["written"] is None:
                    root, offset = result["copied"]
                    ctypes.memmove(_address(array), roots[root] + offset, array.nbytes)
        self._arenas.append(arena)
        if status:
            raise self._error(*divmod(status, _STATUSES))
        return made[0] if len(made) == 1 else tuple(made)

    def _new_arena(self) -> np.ndarray[Any, Any]:
        return np.frombuffer(mmap.mmap(-1, max(self._arena_bytes, 1)), np.uint8)

    def _error(self, step: int, status: int) -> Exception:
        if status == _NO_TILES:
            return OSError(f"{self._names[step]}: this system does not give the process AMX's tile registers")
        return RuntimeError(f"{self._names[step]}: the kernel returned the status {status}")

    def _ordered(self, inputs: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        names = [name for name, _, _ in self.inputs]
        takes = f"{self.name} takes ({', '.join(names)})"
        wrong = [name for name in named if name not in names[len(inputs) :]]
        if wrong:
            raise TypeError(f"{takes}, and `{wrong[0]}` is no input, or is given twice")
        missing = [name for name in names[len(inputs) :] if name not in named]
        if missing or len(inputs) > len(names):
            raise TypeError(f"{takes}, and {len(inputs) + len(named)} inputs are given")
        return [*inputs, *(named[name] for name in names[len(inputs) :])]

    def _checked(self, spec: tuple[str, np.dtype[Any], tuple[int, ...]], x: Any) -> np.ndarray[Any, Any]:
        name, dtype, shape = spec
        array = np.asarray(x)
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(f"`{name}` is {array.dtype}{array.shape}; {self.name} takes {dtype}{shape}")
        return np.require(array, requirements=("C", "A"))


def _pool(data: bytes, functions: Sequence[str], reset: str) -> PoolCode:
    image = Image(data)
    return PoolCode(image, {name: image.symbols[name] for name in functions}, reset)
