"""Whether a candidate computes what its program says.

Each candidate runs twice before it is timed (and is compared once more after it): on small integer-valued data,
where a program that adds, multiplies and takes maxima has exactly one right answer, and on random data against the
float64 reference, within what rounding allows (`metasched.measure.checking.tolerance`). Outputs and workspace are
filled with NaN before the first, and with something large before the second, so that unwritten elements are found.
Every buffer lies between guard zones, and inputs must not change.

Expected results are computed once a program, by a worker, and saved; `Cases.load` reads them in another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.dtypes import is_float
from metasched.ir.nodes import Func
from metasched.ir.prologue import constants
from metasched.measure.checking.archive import read_arrays, write_arrays
from metasched.measure.checking.arithmetic import Computation
from metasched.measure.checking.inputs import Given, drawn_from, integer_inputs, random_inputs
from metasched.measure.checking.tolerance import (
    DataKind,
    exact_magnitude,
    position_tolerances,
    tolerances,
    with_doubtful_free,
)
from metasched.measure.records import CheckError, Failure, Reason
from metasched.reference.error_bounds import contests
from metasched.reference.execution import reference_with_bound
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE

Array = NDArray[Any]
_MAGNITUDES = (4, 2, 1)
NAN_BYTE = 0xFF  # four or eight of them are a NaN, or -1
LARGE_BYTE = 0x7E  # 8.5e37 in f32, 1.3e300 in f64


@dataclass(frozen=True)
class CheckCase:
    """Inputs, their expected outputs, and the tolerance of a result.

    `inputs` are in calling order, a scalar as an array of shape (); `expected` are the outputs in order, each in the
    output's own dtype when its tolerance is None (it must match exactly), else in float64. `fill` is the byte that
    outputs and workspace hold before the kernel runs.
    """

    inputs: tuple[Array, ...]
    expected: tuple[Array, ...]
    tolerance: tuple[NDArray[np.float64] | None, ...]
    fill: int


@dataclass(frozen=True)
class Cases:
    """Everything that checking the candidates of one program needs, without the program."""

    outputs: tuple[tuple[str, str], ...]  # (name, NumPy dtype)
    integers: CheckCase
    random: CheckCase
    constants: tuple[int, ...] = ()  # the positions of the arguments that do not change between calls

    def save(self, path: Path) -> None:
        """Write an `.npz`, at once: another process sees all of it or nothing."""
        arrays: dict[str, Array] = {}
        counts: dict[str, tuple[int, int]] = {}
        for label, case in (("integers", self.integers), ("random", self.random)):
            counts[label] = (len(case.inputs), case.fill)
            arrays |= {f"{label}.in.{n}": a for n, a in enumerate(case.inputs)}
            arrays |= {f"{label}.out.{n}": a for n, a in enumerate(case.expected)}
            arrays |= {f"{label}.tol.{n}": a for n, a in enumerate(case.tolerance) if a is not None}
        meta = {"outputs": self.outputs, "cases": counts, "constants": self.constants}
        arrays["meta"] = np.array(json.dumps(meta))
        write_arrays(path, arrays)

    @staticmethod
    def load(path: Path) -> Cases:
        arrays = read_arrays(path)
        meta = json.loads(str(arrays["meta"]))
        outputs = tuple((str(name), str(dtype)) for name, dtype in meta["outputs"])

        def case(label: str) -> CheckCase:
            count, fill = meta["cases"][label]
            return CheckCase(
                tuple(arrays[f"{label}.in.{n}"] for n in range(count)),
                tuple(arrays[f"{label}.out.{n}"] for n in range(len(outputs))),
                tuple(arrays.get(f"{label}.tol.{n}") for n in range(len(outputs))),
                fill,
            )

        return Cases(outputs, case("integers"), case("random"), tuple(map(int, meta["constants"])))


def prepare(func: Func, given: Given, seed: int, by: Computation | None = None) -> Cases:
    """Draw the data and compute the expected results of an unscheduled program.

    The tolerance is for results that are computed `by` a program, by default this one.

    Raises CheckError when most of a result cannot be checked on this data, since it is not a number or rounding might
    make it anything, and when none of it is finite. An infinite element may be right, as a maximum of no terms is.
    """
    outputs = tuple((b.name, b.dtype.numpy.name) for b in func.outputs)
    data = random_inputs(func, given, seed)
    fixed = tuple(func.order.index(name) for name in constants(func))
    by = by or Computation(func)
    bounded = _bounded_case(func, by, data, given, LARGE_BYTE)
    return Cases(outputs, _integer_case(func, by, given, seed), bounded, fixed)


def _kind(given: Given) -> DataKind:
    """The kind of the data that is summed; scalars and tables of indices are not."""
    is_given = any(array.ndim and is_float(array.dtype) for array in given.arrays.values())
    return DataKind.GIVEN if is_given else DataKind.DRAWN


def _integer_case(func: Func, by: Computation, given: Given, seed: int) -> CheckCase:
    for magnitude in _MAGNITUDES:
        data = integer_inputs(func, given, seed, magnitude)
        if exact_magnitude(func, data) and (by.func is func or exact_magnitude(by.func, data)):
            # The bounds are of no use here, but compiling one program of two is.
            pairs = reference_with_bound(func)(*data.values())
            typed = tuple(value.astype(b.dtype.numpy) for (value, _), b in zip(pairs, func.outputs, strict=True))
            return CheckCase(tuple(data.values()), typed, (None,) * len(typed), NAN_BYTE)
    return _telling_case(func, by, given, seed)


def _telling_case(func: Func, by: Computation, given: Given, seed: int) -> CheckCase:
    """On integers where they tell; not where most results divide by differences of integers, which are often 0."""
    for magnitude in reversed(_MAGNITUDES):
        try:
            return _bounded_case(func, by, integer_inputs(func, given, seed, magnitude), given, NAN_BYTE)
        except CheckError:
            continue  # others may tell
    return _bounded_case(func, by, random_inputs(func, given, seed + 1), given, NAN_BYTE)


def _bounded_case(func: Func, by: Computation, data: Mapping[str, Array], given: Given, fill: int) -> CheckCase:
    pairs, kind = reference_with_bound(func)(*data.values()), _kind(given)
    positions = contests(func)
    tolerance = tuple(
        position_tolerances(by, bound, kind)
        if buffer.name in positions
        else with_doubtful_free(tolerances(by, bound, buffer.dtype, kind), value)
        for (value, bound), buffer in zip(pairs, func.outputs, strict=True)
    )
    expected = tuple(value for value, _ in pairs)
    for buffer, value, allowed in zip(func.outputs, expected, tolerance, strict=True):
        if buffer.dtype.is_float and not _tells_enough(value, allowed):
            raise CheckError(
                f"{func.name}: most of `{buffer.name}` is not finite, or made of what is not, "
                f"on {drawn_from(given, data)}, so nothing could be checked",
                tuple(data),
            )
    return CheckCase(tuple(data.values()), expected, tolerance, fill)


def _tells_enough(value: Array, allowed: NDArray[np.float64] | None) -> bool:
    """Whether enough of a result tells a right kernel from a wrong one."""
    tells = np.isfinite(value) if allowed is None else np.isfinite(allowed) & ~np.isnan(value)
    some = bool(np.isfinite(value).any()) or not value.size
    return some and int(np.count_nonzero(tells)) * 2 >= value.size


def mismatch(actual: Array, expected: Array, tolerance: NDArray[np.float64] | None) -> str | None:
    """Where and how a result is wrong, in a sentence; None when it is right."""
    if tolerance is None:
        wrong = _differs(actual, expected)
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            difference = actual.astype(np.float64)
            np.abs(np.subtract(difference, expected, out=difference), out=difference)
            close = difference <= tolerance
            if close.all():
                return None
            close |= np.isinf(tolerance) & np.isfinite(expected)
            if close.all():
                return None
            wrong = ~close & _differs(actual, expected.astype(actual.dtype))
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return None
    first = tuple(int(n) for n in np.argwhere(wrong)[0])
    limit = "" if tolerance is None else f" +- {tolerance[first]:.3g}"
    return (
        f"{count} of {actual.size} elements differ, the first at {list(first)}: "
        f"{actual[first]!r}, expected {expected[first]!r}{limit}"
    )


def _differs(actual: Array, expected: Array) -> NDArray[np.bool_]:
    """Elementwise; NaN equals NaN."""
    wrong: NDArray[np.bool_] = np.asarray(actual != expected)
    if is_float(actual.dtype) and wrong.any():
        wrong &= ~(np.isnan(actual) & np.isnan(expected))
    return wrong


_GUARD_BYTES = 4096  # bytes before and after a buffer
# Where NumPy's own large arrays begin within a cache line: what a caller's inputs will be like.
USUAL_OFFSET = 16


class Guarded:
    """A buffer of `nbytes` between guard zones, `offset` bytes after a cache line begins."""

    def __init__(self, nbytes: int, offset: int = USUAL_OFFSET) -> None:
        self._all = np.empty(nbytes + 2 * _GUARD_BYTES + 2 * CACHE_LINE, np.uint8)
        start = _GUARD_BYTES + -int(self._all.ctypes.data) % CACHE_LINE + offset
        self.bytes = self._all[start : start + nbytes]
        self._before, self._after = self._all[:start], self._all[start + nbytes :]
        self._fill = NAN_BYTE
        self.fill(NAN_BYTE)

    def fill(self, value: int) -> None:
        """Fill buffer and guard zones with a byte."""
        self._fill = value
        self._all.fill(value)

    def view(self, shape: Sequence[int], dtype: Any) -> Array:
        viewed: Array = self.bytes.view(dtype).reshape(shape)
        return viewed

    @property
    def address(self) -> int:
        return int(self.bytes.ctypes.data) if self.bytes.size else int(self._after.ctypes.data)

    def intact(self) -> bool:
        """Whether the guard zones are as they were filled."""
        return bool((self._before == self._fill).all() and (self._after == self._fill).all())


class Bench:
    """The memory that one kernel is called on, for one case after another.

    Inputs begin `offset` bytes after a cache line does, and outputs and constants with one, as calls make them. Inputs
    are kept between candidates; outputs are filled anew for each run.
    """

    def __init__(self, cases: Cases, offset: int = USUAL_OFFSET) -> None:
        self.cases = cases
        # Constants lie as `Kernel.pack` copies them.
        self.inputs = tuple(
            Guarded(a.nbytes, 0 if n in cases.constants else offset) for n, a in enumerate(cases.random.inputs)
        )
        self._outputs = tuple(
            Guarded(e.size * np.dtype(dtype).itemsize, offset=0)
            for e, (_, dtype) in zip(cases.random.expected, cases.outputs, strict=True)
        )
        self._case: CheckCase | None = None

    @property
    def addresses(self) -> tuple[int, ...]:
        """Where the kernel's buffers are: inputs (and scalars) in calling order, then outputs."""
        return tuple(g.address for g in self.inputs + self._outputs)

    def load(self, case: CheckCase, *scratch: Guarded) -> None:
        """Put a case's data in place, with outputs and scratch memory (workspaces, and the like) filled."""
        self._case = case
        for guarded, array in zip(self.inputs, case.inputs, strict=True):
            guarded.fill(case.fill)
            guarded.view(array.shape, array.dtype)[...] = array
        for guarded in (*self._outputs, *scratch):
            guarded.fill(case.fill)

    def holds(self, case: CheckCase) -> bool:
        """Whether a case's data is in place, as far as checked candidates left it alone."""
        return self._case is case

    def forget(self) -> None:
        """Assume nothing about the buffers' contents, after a candidate that did something wrong."""
        self._case = None

    def verify(self, *scratch: Guarded) -> Failure | None:
        """What is wrong after a run on a case's data, if anything."""
        case = self._case
        assert case is not None
        for guarded, array in zip(self.inputs, case.inputs, strict=True):
            if not np.array_equal(guarded.bytes, np.ascontiguousarray(array).reshape(-1).view(np.uint8)):
                return Failure(Reason.INPUTS_MODIFIED.value)
        if not all(guarded.intact() for guarded in (*self.inputs, *self._outputs, *scratch)):
            return Failure(Reason.OUT_OF_BOUNDS.value, "bytes just outside a buffer changed")
        for (name, dtype), guarded, expected, tolerance in zip(
            self.cases.outputs, self._outputs, case.expected, case.tolerance, strict=True
        ):
            wrong = mismatch(guarded.view(expected.shape, dtype), expected, tolerance)
            if wrong is not None:
                return Failure(Reason.WRONG_RESULT.value, f"`{name}`: {wrong}")
        return None
