"""The shortest way in: a kernel from one line of index notation, called with arrays.

f = ms.kernel("C[i, j] = sum[k](A[i, k] * B[k, j])")
C = f(A, B)           # compiled for these shapes and element types at the first call: a guess, or what was tuned
f.tune(A, B)          # measures; every later process finds the result
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from metasched import api
from metasched.backend.arguments import in_order
from metasched.backend.kernel import Kernel
from metasched.backend.single_flight import SingleFlight
from metasched.backend.target import Target
from metasched.database.base import scheme_of
from metasched.database.user_database import CACHE, kernels_database, make_folder
from metasched.errors import CacheWarning, KernelError, MetaschedError, NoRecord, counted
from metasched.ir.dtypes import DType
from metasched.ir.program import Program
from metasched.lang.shorthand import ArgumentType, ScalarType, Shorthand, TensorType, read_shorthand
from metasched.measure.inputs import Inputs
from metasched.search.progress import ProgressCallback
from metasched.space.registry import RuleSpec

_ARRAY = np.ndarray
_OPTIONS = ("out", "trials", "seed", "data", "progress")
_DTYPES = {dtype.numpy: dtype for dtype in DType}


def kernel(text: str, *, db: str | None = None, rules: RuleSpec = None, target: Target | None = None) -> KernelFunction:
    """A function of arrays from stages in index notation, separated by newlines or `;`; the last one is its result.

        f = ms.kernel("C[i, j] = sum[k](A[i, k] * B[k, j])")
        C = f(A, B)

    Its arguments are the names that no stage computes, in the order in which the right-hand sides first mention them:
    arrays where they are indexed, numbers where they are not. Shapes and element types are those of the arguments; a
    Python number takes the type of what it is combined with.

    Args:
        text: the stages.
        db: where tuned schedules are kept and looked up, by URL; by default a database of this user's, `kernels.db` in
            the folder that METASCHED_CACHE names, else in the platform's folder for caches.
        rules: the rules that make the space, of a guess and of `tune`; by default "cpu".
        target: the CPU to compile for; by default this one.

    Where that database cannot be used, the function warns (`CacheWarning`) and guesses.

    Raises LanguageError for a text that is wrong, DatabaseError for a `db` that is no URL of a database.
    """
    if db is not None:
        scheme_of(db)
    return KernelFunction(read_shorthand(text), db=db, rules=rules, target=target)


@dataclass(frozen=True)
class _Compiled:
    """A kernel, and why it is a guess although something may have been tuned."""

    kernel: Kernel
    obstacle: str = ""


class KernelFunction:
    """What `ms.kernel` makes: a function that has a compiled kernel for each combination of shapes and types.

    The first call with such a combination compiles, while other threads that need the same one wait; later calls run at
    once, side by side.
    """

    def __init__(self, shorthand: Shorthand, *, db: str | None, rules: RuleSpec, target: Target | None) -> None:
        self._shorthand = shorthand
        self._db = db
        self._rules = rules
        self._target = target
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self._only: Kernel | None = None
        self._compiling: SingleFlight[_Compiled] = SingleFlight()
        self._warned: set[str] = set()

    @property
    def text(self) -> str:
        return self._shorthand.text

    @property
    def arguments(self) -> tuple[str, ...]:
        """Their names, in calling order."""
        return self._shorthand.arguments

    def __call__(self, /, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """The result, a new array, or `out` written. Arguments are given in their order, or by name.

        Raises KernelError for arguments that do not go together.
        """
        if named:
            inputs = self._in_order(inputs, named)
        only = self._only
        if only is None:
            return self._looked_up(inputs, out)
        try:
            return only(*inputs, out=out)
        except KernelError:  # they are for another kernel, or wrong: looking it up tells
            return self._looked_up(inputs, out)

    def _looked_up(self, inputs: tuple[Any, ...], out: Any) -> Any:
        found = self._kernels.get(_key(inputs))
        return (self.kernel_for(*inputs) if found is None else found)(*inputs, out=out)

    def kernel_for(self, /, *inputs: Any, **named: Any) -> Kernel:
        """The kernel for arguments such as these, which are not run on: it has the trace, and a form for Numba.

        It is the best one measured, of this process's `tune` or of the database, else the best guess.
        """
        inputs = self._in_order(inputs, named)
        key = _key(inputs)
        found = self._kernels.get(key)
        if found is None:
            self._check_contiguous(inputs)
            program = self.program(*inputs)
            compiled = self._compiling.run(key, lambda: self._compiled(key, program))
            found = compiled.kernel
            self._warn(compiled.obstacle)
        return found

    def program(self, /, *inputs: Any, **named: Any) -> Program:
        """The program for arguments such as these. Raises KernelError or LanguageError where there is none."""
        inputs = self._in_order(inputs, named)
        names = self._shorthand.arguments
        if len(inputs) != len(names):
            listed = ", ".join(f"`{name}`" for name in names)
            raise KernelError(
                f"the kernel takes {len(names)} arguments ({listed}), not {len(inputs)}{_unbound(self._shorthand)}"
            )
        return self._shorthand.program({n: self._type(n, value) for n, value in zip(names, inputs, strict=True)})

    def tune(
        self,
        /,
        *inputs: Any,
        trials: int = 64,
        seed: int = 0,
        data: Inputs | None = None,
        progress: ProgressCallback | None = None,
        **named: Any,
    ) -> Kernel:
        """Search for a fast schedule for arguments such as these, and use it from now on, here and in later processes.

        Args:
            inputs: arguments of the shapes and types to tune for.
            trials: measurements to have in the database in the end; the same call again is instant.
            seed: with the recorded times, decides every candidate.
            data: what to measure on, by argument, as `inputs` of `ms.tune`; by default random numbers.
            progress: called after each measurement.
            named: arguments given by name; those that are called as one of the above are given by their place.

        Raises as `ms.tune` does.
        """
        inputs = self._in_order(inputs, named)
        program = self.program(*inputs)
        tuned = api.tune(
            program,
            trials=trials,
            db=self._database_to_write(),
            rules=self._rules,
            seed=seed,
            target=self._target,
            inputs=data,
            progress=progress,
        )
        return self._keep(_key(inputs), tuned)

    def __repr__(self) -> str:
        stages = "; ".join(line.strip() for line in self.text.strip().splitlines())
        count = len(self._kernels)
        shapes = "no shapes yet" if not count else f"{counted(count, 'combination')} of shapes"
        return f"<kernel {stages!r} of ({', '.join(self.arguments)}), compiled for {shapes}>"

    # --- helpers

    def _in_order(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        return in_order("the kernel", self.arguments, inputs, named, _OPTIONS) if named else inputs

    def _keep(self, key: tuple[Any, ...], kernel: Kernel) -> Kernel:
        """Use a kernel from now on.

        While there is one only it is called without looking it up, as it checks its arguments anyway. Numbers have to
        be looked at: a kernel takes those of any type.
        """
        self._kernels[key] = kernel
        looked_up = len(self._kernels) > 1 or len(self._shorthand.tensors) < len(self._shorthand.arguments)
        self._only = None if looked_up else kernel
        return kernel

    def _database(self) -> str:
        return kernels_database() if self._db is None else self._db

    def _database_to_write(self) -> str:
        url = self._database()
        if self._db is None:
            make_folder(url)
        return url

    def _compiled(self, key: tuple[Any, ...], program: Program) -> _Compiled:
        """The best kernel measured, else a guess; also where there is a database that cannot be used."""
        if key in self._kernels:
            return _Compiled(self._kernels[key])
        obstacle, where = "", ""
        try:
            url = self._database()
            where = f" ({url})"
            return _Compiled(self._keep(key, api.compile(program, db=url, target=self._target)))
        except NoRecord:
            pass
        except MetaschedError as error:  # told to the user as a warning
            obstacle = f"{where}: {error}"
        return _Compiled(self._keep(key, api.compile(program, rules=self._rules, target=self._target)), obstacle)

    def _warn(self, obstacle: str) -> None:
        """Say why what may have been tuned is not used; each reason once."""
        if not obstacle or obstacle in self._warned:
            return
        self._warned.add(obstacle)
        warnings.warn(
            f"ms.kernel guesses, as its database of tuned kernels cannot be used{obstacle}\n  hint: mend or remove "
            f"what it names, set {CACHE} to another folder, or give `db=`; to guess without this, filter CacheWarning",
            CacheWarning,
            stacklevel=_callers_level(),
        )

    def _type(self, name: str, value: Any) -> ArgumentType:
        if name in self._shorthand.tensors:
            return _tensor(name, value)
        if isinstance(value, np.ndarray) and value.ndim:
            raise KernelError(f"`{name}` is an array of shape {value.shape}; it is not indexed, so it takes a number")
        if isinstance(value, np.generic | np.ndarray):
            return ScalarType(_dtype(name, value.dtype), fixed=True)
        if isinstance(value, bool):
            return ScalarType(DType.BOOL, fixed=True)
        if isinstance(value, int | float):
            return ScalarType(DType.I64 if isinstance(value, int) else DType.F64, fixed=False)
        raise KernelError(f"`{name}` is a {type(value).__name__}; it takes a number")

    def _check_contiguous(self, inputs: tuple[Any, ...]) -> None:
        """Say so before compiling what could not be called."""
        for name, value in zip(self._shorthand.arguments, inputs, strict=False):
            if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
                raise KernelError(
                    f"`{name}` is not C-contiguous (strides {value.strides}). Copy it first with "
                    f"`numpy.ascontiguousarray({name})`"
                )


def _unbound(shorthand: Shorthand) -> str:
    """A hint for arguments that were most likely meant to be indices."""
    names = shorthand.subscripts
    if not names:
        return ""
    number = "is a number, as no stage has it as an index" if len(names) == 1 else "are numbers, no stages' indices"
    listed = " and ".join(f"`{name}`" for name in names)
    return f"\n  hint: {listed} {number}; to sum over it, write `sum[{names[0]}](...)`"


def _tensor(name: str, value: Any) -> TensorType:
    if not isinstance(value, np.ndarray):
        raise KernelError(f"`{name}` is a {type(value).__name__}, not a NumPy array. Pass `numpy.asarray({name})`")
    empty = [n for n, extent in enumerate(value.shape) if extent == 0]
    if empty:
        raise KernelError(f"`{name}` has shape {value.shape}; dimension {empty[0]} is empty")
    return TensorType(_dtype(name, value.dtype), value.shape)


def _dtype(name: str, dtype: np.dtype[Any]) -> DType:
    found = _DTYPES.get(dtype)
    if found is None:
        known = ", ".join(d.name for d in _DTYPES)
        raise KernelError(f"`{name}` has dtype {dtype.str if dtype.names is None else dtype}; kernels take {known}")
    return found


def _key(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a compiled kernel depends on: shape and element type of an array, the type of a number."""
    key: list[Any] = []
    for value in inputs:
        if type(value) is _ARRAY or isinstance(value, _ARRAY):
            key.append(value.shape)
            key.append(value.dtype)
        else:
            key.append(type(value))
    return tuple(key)


def _callers_level() -> int:
    """How many frames above who calls this the first is that is not of this package, for `warnings.warn`."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 -- the way `warnings` itself counts
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "metasched":
        level, frame = level + 1, frame.f_back
    return level
