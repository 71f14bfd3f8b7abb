"""A network that runs with NumPy alone: this file loads the machine code and the weights that lie beside it.

`run(x)` takes arrays by position or by name, and returns a new array, or a tuple of them. It needs Linux on x86-64 and
the instruction sets that the code was compiled for. For types that NumPy lacks, such as bfloat16, it needs ml_dtypes.
Several threads may call it. What a network holds between calls, such as a decoder's caches, is in `run.state`;
`run.session()` is `run` with a state of its own, and `run.reset()` makes it zeros.
"""

from __future__ import annotations

import copy
import ctypes
import hashlib
import json
import math
import mmap
from collections.abc import Mapping, Sequence
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from metasched.runtime.child_locks import lock_of_calls
from metasched.runtime.export.loader import Image, _dtype, _memory, _require
from metasched.runtime.shared_pool import PoolCode, shared_pool

_POINTER = ctypes.c_void_p
_STATUSES_PER_STEP = 256
_NO_TILES_STATUS = 3
_NO_TIME_LIMIT_NS = 2**63 - 1

Array: TypeAlias = "np.ndarray[Any, Any]"


def _array_address(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)


class _Member:
    """A network of fixed sizes: a table of steps, each the address of its code, and where its arguments are."""

    def __init__(self, said: Mapping[str, Any], codes: Mapping[int, int], run: Any, weights: Array) -> None:
        self.inputs = [(name, _dtype(dtype), tuple(shape)) for name, dtype, shape in said["inputs"]]
        self.shapes = {name: shape for name, _, shape in self.inputs}
        self.labels = list(said["labels"])
        self.growth = said["growth"]
        self._results = [(_dtype(dtype), tuple(shape), *more) for dtype, shape, *more in said["results"]]
        self._kept, self._moved = said["kept"], said["moved"]
        self._arena_bytes = int(said["arena_bytes"])
        self._names = said["nodes"]
        self._run, self._weights = run, weights
        self._arenas: list[Array] = []
        taken = [
            [*(number for place in places for number in place), *numbers]
            for places, numbers in zip(said["places"], said["numbers"], strict=True)
        ]
        flat = [number for one in taken for number in one]
        self._arguments = (ctypes.c_int64 * max(len(flat), 1))(*flat)
        at = ctypes.addressof(self._arguments)
        entries: list[int] = []
        for code, numbers in zip(said["steps"], taken, strict=True):
            entries += (codes[code], at)
            at += 8 * len(numbers)
        self._moving = int(said["moving"])
        self._table = (ctypes.c_int64 * max(len(entries), 1))(*entries)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results for arrays of all inputs, states among them, which are next then."""
        made = [np.empty(shape, dtype) for dtype, shape, *_ in self._results]
        written = [array for array, result in zip(made, self._results, strict=True) if result[2]]
        moved = [self._state_part_address(part, inputs) for part in self._moved]
        arena = self._arena()
        addresses = [*map(_array_address, (arena, self._weights, *inputs, *written)), *moved, *[0] * self._moving]
        roots = (ctypes.c_int64 * len(addresses))(*addresses)
        status = self._run(self._table, len(self._names), roots, _NO_TIME_LIMIT_NS)
        if not status:
            # Results come first: one may be what a state was before this call.
            for n, (array, (_, _, _, copied, count)) in enumerate(zip(made, self._results, strict=True)):
                if copied is not None:
                    ctypes.memmove(_array_address(array), roots[copied[0]] + copied[1], array.nbytes)
                if count is not None:
                    (root, offset), axis = count
                    number = ctypes.c_int64.from_address(roots[root] + offset).value
                    made[n] = np.ascontiguousarray(array[(*(slice(None),) * axis, slice(number))])
            self._keep_states(roots)
        self._arenas.append(arena)
        if status:
            raise self._status_error(*divmod(status, _STATUSES_PER_STEP))
        return made

    def _keep_states(self, roots: ctypes.Array[ctypes.c_int64]) -> None:
        """Copy what states are next to where they are. What lies in another state, which is overwritten, too, is read
        before any of them is.
        """
        overwritten = {root for root, _, _ in self._kept}
        found: list[int | bytes] = []
        for _, (root, offset), nbytes in self._kept:
            address = roots[root] + offset
            is_apart = root not in overwritten
            found.append(address if is_apart else bytes((ctypes.c_char * nbytes).from_address(address)))
        for (root, _, nbytes), source in zip(self._kept, found, strict=True):
            ctypes.memmove(roots[root], source, nbytes)

    def _arena(self) -> Array:
        """Memory for values between steps, which no other call has."""
        try:
            return self._arenas.pop()
        except IndexError:  # asked for without a look before: another thread may take the last one after that
            # Vectors of which each lane is left out reach beyond: they take long where no page is that was written.
            pages = _memory(max(self._arena_bytes, 1) + 2 * mmap.PAGESIZE)
            pages[0] = pages[-1] = 0
            return np.frombuffer(pages, np.uint8, max(self._arena_bytes, 1), mmap.PAGESIZE)

    def _state_part_address(self, part: Sequence[Any], inputs: Sequence[Array]) -> int:
        """The address of the part of a state that begins at a position."""
        state, name, offset, number, position_of, lowest, highest, step = part
        position = int(inputs[number].reshape(-1)[0])
        if not lowest <= position <= highest:
            raise ValueError(f"`{position_of}` is {position}; the state `{name}` has room for {lowest} to {highest}")
        return _array_address(inputs[state]) + int(offset) + position * int(step)

    def _status_error(self, step: int, status: int) -> Exception:
        if status == _NO_TILES_STATUS:
            return OSError(f"{self._names[step]}: this system does not give the process AMX's tile registers")
        return RuntimeError(f"{self._names[step]}: the kernel returned the status {status}")


class ExportedNetwork:
    """The network in a folder. `inputs` and `outputs` are names, dtypes and shapes, in order; what is open of a shape
    is a text. `state` has what is held between calls: one call at a time changes it.
    """

    def __init__(self, folder: Path) -> None:
        said = _description(folder)
        _require(said["machine"], said["features"])
        self.name = str(said["name"])
        self.inputs = [(name, _dtype(dtype), tuple(shape)) for name, dtype, shape in said["inputs"]]
        self.outputs = [(name, _dtype(dtype), tuple(shape)) for name, dtype, shape in said["outputs"]]
        self._parts = said["parts"]
        weights = self._map_weights(folder / "weights.bin", int(said["weight_bytes"]))
        codes, run = self._load_code(said, (folder / "code.bin").read_bytes())
        self._members = [_Member(member, codes, run, weights) for member in said["members"]]
        self._forms: dict[tuple[int, tuple[int, ...]], Any] = {}
        self._states = [(name, _dtype(dtype), tuple(shape)) for name, dtype, shape in said["states"]]
        self.allocate_state()

    def allocate_state(self) -> None:
        """Hold a new state, zeros."""
        self.state = {name: np.zeros(shape, dtype) for name, dtype, shape in self._states}
        self._lock = lock_of_calls()

    def session(self) -> ExportedNetwork:
        """A network that shares the code and weights, with a state of its own, zeros at first."""
        other = copy.copy(self)
        other.allocate_state()
        return other

    def __copy__(self) -> ExportedNetwork:
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self.name} is code and weights in the memory of its process, and is neither pickled nor copied deeply: "
            "import `run` from its folder in the other process; run.session() is it with a state of its own"
        )

    def reset(self) -> None:
        """Make the state zeros, as before the first call."""
        with self._lock:
            for array in self.state.values():
                array[...] = 0

    def _map_weights(self, path: Path, nbytes: int) -> Array:
        """The weights: pages of the file, which processes share, and which are read when they are first used. A hash
        of them would read them all at load.
        """
        if path.stat().st_size != max(nbytes, 1):
            raise ImportError(f"{path} has not the {nbytes} bytes of {self.name}'s weights")
        return np.memmap(path, np.uint8, "r")

    def _load_code(self, said: dict[str, Any], data: bytes) -> tuple[dict[int, int], Any]:
        """The addresses of kernels and of what is done between them, by number; and what runs a table of these."""
        if hashlib.sha256(data).hexdigest() != said["code_hash"]:
            raise ImportError(f"the machine code of {self.name} is damaged: it has another hash")
        pieces = []
        at = 0
        for size in said["code_bytes"]:
            pieces.append(data[at : at + size])
            at += size
        table, pool, *steps = pieces
        self._slots = (ctypes.c_int64 * said["slots"])()
        if pool:
            found = shared_pool(lambda: _pool(pool, said["pool_functions"], said["pool_reset"]))
            for slot, function in said["pool_slots"]:
                self._slots[slot] = found[function]
        self._images = [Image(step) for step in steps]
        for image in self._images:
            _POINTER.from_address(image.symbols[said["state"]]).value = ctypes.addressof(self._slots)
        self._table_image = Image(table)
        own = self._table_image.symbols
        codes = {n: image.symbols[said["step"]] for n, image in enumerate(self._images)}
        codes |= {number: own[name] if name else 0 for number, name in said["actions"]}
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, _POINTER, ctypes.c_int64, _POINTER, ctypes.c_int64)
        return codes, prototype(own[said["run"]])

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the network. Raises TypeError and ValueError for inputs that it does not take."""
        given = [np.asarray(x) for x in self._order_inputs(inputs, named)]
        part, sizes = self._find_part(given)
        if part["forms"] is None:
            results = self._run_at_length(part, given)
        else:
            results = self._run_padded(part["forms"], self._members[part["members"][0]], given, sizes)
        return results[0] if len(results) == 1 else tuple(results)

    def _run(self, member: _Member, given: Sequence[Array]) -> list[Array]:
        """Run a member on arrays for all inputs that are no states."""
        new = iter(given)
        if not self.state:
            return member.run([_require_spec(self.name, spec, next(new)) for spec in member.inputs])
        with self._lock:
            taken = [
                self.state[spec[0]] if spec[0] in self.state else _require_spec(self.name, spec, next(new))
                for spec in member.inputs
            ]
            return member.run(taken)

    # --- sizes that are ranges

    def _find_part(self, given: Sequence[Array]) -> tuple[Mapping[str, Any], dict[str, int]]:
        """The exported part that a call runs on, and the call's sizes that are ranges."""
        names = {name for part in self._parts for name in part["sizes"]}
        sizes: dict[str, int] = {}
        for (name, _, shape), array in zip(self.inputs, given, strict=True):
            if names and len(shape) != array.ndim:
                raise ValueError(f"`{name}` has {array.ndim} dimensions; {self.name} takes {list(shape)}")
            for dim, size in zip(shape, array.shape, strict=False):
                if dim in names and sizes.setdefault(dim, size) != size:
                    raise ValueError(f"`{dim}` is {sizes[dim]} in one input, and {size} in `{name}`")
        for part in self._parts:
            if all(sizes[name] in _sizes(bounds) for name, bounds in part["sizes"].items()):
                return part, sizes
        raise ValueError(f"{self.name} was not exported for these sizes: {sizes}; it takes {self._ranges_text(sizes)}")

    def _ranges_text(self, sizes: Mapping[str, int]) -> str:
        """The sizes that calls may have, as text, and those next to the ones of a call."""
        ranges = {name: [_sizes(part["sizes"][name]) for part in self._parts] for name in self._parts[0]["sizes"]}
        taken = ", ".join(f"`{name}` {_intervals_text(intervals)}" for name, intervals in ranges.items())
        nearest = (_nearest_text(name, sizes[name], intervals) for name, intervals in ranges.items())
        return taken + "".join(nearest)

    def _run_padded(
        self, forms: Mapping[str, Any], member: _Member, given: Sequence[Array], sizes: Mapping[str, int]
    ) -> list[Array]:
        """The results of a call on kernels that have room for more: what lies beyond its sizes counts for nothing."""
        key = tuple(sizes.values())
        if (id(forms), key) not in self._forms:
            self._forms[id(forms), key] = _evaluate_forms(forms, sizes)
        wanted, more, cuts = self._forms[id(forms), key]
        padded = []
        for (name, spec), array in zip(((n, s) for n, s in wanted.items() if n not in self.state), given, strict=True):
            _require_spec(self.name, (name, *spec), array)
            made = np.zeros(member.shapes[name], array.dtype)
            made[tuple(map(slice, array.shape))] = array
            padded.append(made)
        return [
            without_padding(array, cut) for array, cut in zip(self._run(member, [*padded, *more]), cuts, strict=True)
        ]

    # --- sizes that grow

    def _run_at_length(self, part: Mapping[str, Any], given: Sequence[Array]) -> list[Array]:
        """The results of a call on the member for its length; of a network in which nothing grows, there is one."""
        members = [self._members[number] for number in part["members"]]
        whole = members[-1]
        if whole.growth is None:
            return self._run(whole, given)
        name, longest, values = whole.growth
        arrays = dict(zip((name for name, _, _ in self.inputs), given, strict=True))
        length = _require_length(name, longest, arrays[name])
        member = next(one for one in members if length <= one.growth[1])
        arrays[name] = np.asarray(length, np.int64)
        for own, offsets in values.items():
            if own in arrays:
                arrays[own] = _fit_to_room(own, arrays[own], offsets, length, whole.shapes[own], member.shapes[own])
        results = self._run(member, list(arrays.values()))
        found = []
        for label, array in zip(member.labels, results, strict=True):
            shape = _shape_at_length(values.get(label), array.shape, length)
            found.append(array[tuple(slice(0, n) for n in shape)])
        return found

    def _order_inputs(self, inputs: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        names = [name for name, _, _ in self.inputs]
        takes = f"{self.name} takes ({', '.join(names)})"
        wrong = [name for name in named if name not in names[len(inputs) :]]
        if wrong:
            raise TypeError(f"{takes}, and `{wrong[0]}` is no input, or is given twice")
        missing = [name for name in names[len(inputs) :] if name not in named]
        if missing or len(inputs) > len(names):
            count = len(inputs) + len(named)
            raise TypeError(f"{takes}, and {count} {'input is' if count == 1 else 'inputs are'} given")
        return [*inputs, *(named[name] for name in names[len(inputs) :])]


def _description(folder: Path) -> dict[str, Any]:
    """What `network.json` says. Raises ImportError where it is damaged, or a file is missing."""
    names = ("network.json", "code.bin", "weights.bin")
    for name in names:
        if not (folder / name).is_file():
            raise ImportError(f"{folder} has no `{name}`; network.py reads {', '.join(names)} beside it")
    try:
        said: dict[str, Any] = json.loads((folder / "network.json").read_text())
    except ValueError as error:
        raise ImportError(f"{folder / 'network.json'} is damaged: {error}; export the network again") from None
    return said


def _require_spec(network: str, spec: tuple[str, np.dtype[Any], tuple[int, ...]], array: Array) -> Array:
    name, dtype, shape = spec
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(f"`{name}` is {array.dtype}{array.shape}; {network} takes {dtype}{shape}")
    return np.require(array, requirements=("C", "A"))


def _require_length(name: str, longest: int, array: Array) -> int:
    if array.size != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"`{name}` is one whole number, how long the caches are")
    length = int(array.reshape(-1)[0])
    if not 0 <= length <= longest:
        raise ValueError(f"`{name}` is {length}, and there is room for a call at 0 to {longest}")
    return length


def _shape_at_length(offsets: Sequence[int | None] | None, shape: tuple[int, ...], length: int) -> tuple[int, ...]:
    if offsets is None:
        return shape
    return tuple(n if offset is None else length + offset for n, offset in zip(shape, offsets, strict=True))


def _fit_to_room(
    name: str,
    array: Array,
    offsets: Sequence[int | None],
    length: int,
    whole: tuple[int, ...],
    room: tuple[int, ...],
) -> Array:
    """An input that grows, in an array that has a member's room. It may have the room of the longest, too."""
    shape = _shape_at_length(offsets, whole, length)
    if array.shape == whole:
        array = array[tuple(slice(0, n) for n in shape)]
    if array.shape != shape:
        raise ValueError(f"`{name}` has the shape {array.shape}, and at this length it is to have {shape}")
    made = np.zeros(room, array.dtype)
    made[tuple(slice(0, n) for n in shape)] = array
    return made


def _evaluate_forms(forms: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[Any, Any, Any]:
    """The types of inputs, arrays of numbers that follow, and outputs by factors, of a call of some sizes."""
    inputs = {
        name: (_dtype(dtype), tuple(int(_number(form, sizes)) for form in dims))
        for name, (dtype, dims) in forms["inputs"].items()
    }
    more = [np.array([_number(form, sizes) for form in one], NumberKind(one[0][0]).dtype) for one in forms["more"]]
    outputs = [
        [[(large, int(_number(form, sizes))) for large, form in factors] for factors in dims]
        for dims in forms["outputs"]
    ]
    return inputs, more, outputs


class NumberKind(Enum):
    """What a number that depends on sizes is of a sum of products of them."""

    WHOLE = "whole"  # it, an integer
    FLOAT = "float"  # it
    INVERSE = "inverse"  # one over it
    INVERSE32 = "inverse32"  # that, rounded to 32 bits

    @property
    def dtype(self) -> type[Any]:
        """The element type of arrays of such numbers."""
        return np.int64 if self is NumberKind.WHOLE else np.float64

    def convert(self, total: Fraction) -> float:
        """The number for a sum."""
        if self is NumberKind.WHOLE:
            return int(total)
        if self is NumberKind.FLOAT:
            return float(total)
        return float(np.float32(1 / total)) if self is NumberKind.INVERSE32 else float(1 / total)


def _sizes(bounds: Sequence[int]) -> range:
    """The sizes from a smallest to a largest one in steps."""
    low, high, step = bounds
    return range(low, high + 1, step)


def _intervals_text(intervals: list[range]) -> str:
    """The sizes of intervals, as text: "from 1 to 6", or "of 8, 10, 12 to 16 in steps of 2"."""
    joined: list[range] = []
    for sizes in sorted(intervals, key=lambda sizes: (sizes[0], sizes[-1])):
        if joined and sizes[0] <= joined[-1][-1] + sizes.step:
            joined[-1] = range(joined[-1][0], max(joined[-1][-1], sizes[-1]) + 1, sizes.step)
        else:
            joined.append(sizes)
    text = ", ".join(str(s[0]) if len(s) == 1 < len(joined) else f"{s[0]} to {s[-1]}" for s in joined)
    step = joined[0].step
    return ("from " if len(joined) == 1 else "of ") + text + (f" in steps of {step}" if step > 1 else "")


def _nearest_text(name: str, size: int, intervals: list[range]) -> str:
    """The sizes next to one that is in no interval and between two, as the end of a sentence."""
    known = {number for sizes in intervals for number in sizes}
    below, above = [number for number in known if number < size], [number for number in known if number > size]
    if size in known or not below or not above:
        return ""
    return f"; the nearest of `{name}` are {max(below)} and {min(above)}"


def _number(form: Sequence[Any], sizes: Mapping[str, int]) -> float:
    """A number that depends on sizes, from its kind and the terms of its sum."""
    kind, terms = form
    total = Fraction(0)
    for up, down, names in terms:
        factor = Fraction(up, down)
        for name in names:
            factor *= sizes[name]
        total += factor
    return NumberKind(kind).convert(total)


def without_padding(array: Array, dims: Sequence[Sequence[tuple[int, int]]]) -> Array:
    """The elements of a result that are those of a call's sizes: each dimension has factors, at most and in the call.

    An array without any others is returned itself.
    """
    if all(large == small for factors in dims for large, small in factors):
        return array
    apart = array.reshape([large for factors in dims for large, _ in factors])
    taken = apart[tuple(slice(small) for factors in dims for _, small in factors)]
    shape = [math.prod(small for _, small in factors) for factors in dims]
    return np.ascontiguousarray(taken).reshape(shape)


def _pool(data: bytes, functions: Sequence[str], reset: str) -> PoolCode:
    image = Image(data)
    return PoolCode(image, {name: image.symbols[name] for name in functions}, reset)
