"""Calls of compiled programs with every argument checked: from Python, and from Numba."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self

import numpy as np

from metasched.compiler.cpu.emit.runtime import Status
from metasched.errors import KernelError
from metasched.ir.highlight import html_text
from metasched.ir.nodes import Func
from metasched.ir.notebook import collapsible_html, table
from metasched.ir.program import Program
from metasched.lang.call_arguments import order_arguments, scalar
from metasched.runtime import arguments
from metasched.runtime.addresses import aligned_empty, data_pointer
from metasched.runtime.compiled import CompiledKernel, raise_status
from metasched.runtime.foreign import Library, as_numpy
from metasched.schedule.trace import Trace
from metasched.support.cached import cached_property
from metasched.support.imports import imports
from metasched.support.messages import a_or_an, counted
from metasched.target import Target

if TYPE_CHECKING:  # type variables have defaults since Python 3.13
    from typing_extensions import TypeVar

    Report_co = TypeVar("Report_co", covariant=True, default=object)
else:
    from typing import TypeVar

    Report_co = TypeVar("Report_co", covariant=True)

Array = np.ndarray[Any, Any]


class PartOfCall(Protocol):
    """A nest in a profile, or a part of one; `metasched.report.profile.PartProfile` says what each is."""

    @property
    def name(self) -> str: ...
    @property
    def blocks(self) -> tuple[str, ...]: ...
    @property
    def depth(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def share(self) -> float: ...
    @property
    def of_limit(self) -> float: ...


class Profile(Protocol):
    """What `Kernel.profile` returns: a `metasched.report.profile.CallProfile`, which is made above this package."""

    @property
    def parts(self) -> Sequence[PartOfCall]: ...
    @property
    def nests(self) -> Sequence[PartOfCall]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def runs(self) -> int: ...
    def to_json(self) -> dict[str, Any]: ...


# What `Kernel.profile` calls, with the kernel, the scheduled program that it was compiled from, its inputs and the
# number of runs. It compares with what the machine can do, which is known above this package.
Profiler = Callable[["CallableKernel", Func, tuple[Any, ...], int], Profile]


class Origin(Enum):
    """Where a kernel's schedule comes from: `kernel.origin`.

    TRACE: the caller gave it. MEASURED: it is the best that a search measured. GUESS: it was chosen without measuring.
    """

    TRACE = "trace"  # given by the caller
    MEASURED = "measured"  # the best measured by a search
    GUESS = "guess"  # chosen without measuring

    def __str__(self) -> str:
        return self.value

    @property
    def label(self) -> str:
        """For a person."""
        return {Origin.TRACE: "of a given trace", Origin.MEASURED: "tuned", Origin.GUESS: "a guess"}[self]


class CallableKernel(Generic[Report_co]):
    """A compiled program that checks what it is called with. `report` says how its schedule was found.

    Its arguments and results are documented at `metasched.runtime.kernel.Kernel`, which can be packed and pickled too.
    """

    def __init__(
        self,
        compiled: CompiledKernel,
        *,
        program: Program | None = None,
        trace: Trace | None = None,
        report: Report_co = None,  # type: ignore[assignment]  # of a kernel that nothing is said of
        origin: Origin = Origin.TRACE,
        profiler: Profiler | None = None,
    ) -> None:
        self._compiled = compiled
        # What `ms.compile` and `ms.tune` return has both; `Any` spares their callers a check for None.
        self.program: Program | Any = program
        self.trace: Trace | Any = trace
        self.report = report
        self.origin = origin
        self.profiler = profiler
        self._inputs = tuple(p for p in compiled.parameters if not p.is_output)
        self._outputs = tuple(p for p in compiled.parameters if p.is_output)
        self._results = tuple((p.shape or (), p.dtype.numpy) for p in self._outputs)
        self._single = len(self._outputs) == 1
        # Arrays in and out: the kernel's own entry can check these.
        # Arrays of indices are checked in Python.
        self._plain = all(p.shape is not None and p.below is None for p in self._inputs)
        self._dtypes = tuple(p.dtype.numpy for p in compiled.parameters)
        self._sizes = tuple(0 if p.shape is None else p.dtype.bytes * math.prod(p.shape) for p in compiled.parameters)

    @property
    def name(self) -> str:
        return self._compiled.binary.name

    @property
    def compiled(self) -> CompiledKernel:
        """The kernel without checks."""
        return self._compiled

    @property
    def target(self) -> Target:
        return self._compiled.target

    @property
    def workspace_bytes(self) -> int:
        """Memory for intermediates that one call uses, all threads together."""
        return self._compiled.workspace_bytes

    @property
    def llvm(self) -> str:
        """The LLVM module after optimisation."""
        return self._compiled.llvm

    @property
    def asm(self) -> str:
        """The assembly of the machine code."""
        return self._compiled.asm

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Where the machine code falls short of the schedule, a sentence each; empty if it does not.

        Accumulators that were too many for the vector registers or whose tile is not unrolled, and innermost loops that
        spill vectors. Looking for the latter takes about as long as making the machine code, the first time.
        """
        from metasched.compiler.cpu.spills import spill_warnings

        binary = self._compiled.binary
        return (*binary.warnings, *spill_warnings(binary.code))

    def __call__(self, /, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Run the kernel on arrays in their order, or by name; raises KernelError for what it cannot take."""
        if named:
            inputs = order_arguments(f"`{self.name}`", [p.name for p in self._inputs], inputs, named)
        if self._plain and len(inputs) == len(self._inputs):
            results = (self._allocate() if out is None else out,) if self._single else self._output_arrays(out)
            if self._compiled.binary.parallel:
                self._compiled.prepare()
            status = self._compiled.python_function(*inputs, *results)
            if status == Status.OK:
                return results[0] if self._single else results
            if status != Status.NOT_PLAIN:
                raise_status(status, self.workspace_bytes)
        return self._call_with_checks(inputs, out)

    def _allocate(self) -> Array:
        return aligned_empty(*self._results[0])

    def _output_arrays(self, out: Any) -> tuple[Any, ...]:
        """New arrays for several outputs, or those of an `out` argument."""
        if out is None:
            return tuple([aligned_empty(shape, dtype) for shape, dtype in self._results])
        return tuple(self._split_out(out))

    def _call_with_checks(self, inputs: tuple[Any, ...], out: Any) -> Any:
        """The call with every argument checked in Python, where errors can be explained."""
        if len(inputs) != len(self._inputs):
            arguments.check_count(self.name, self._inputs, len(inputs))
        # References kept until the end: the memory may be another library's.
        taken = [as_numpy(p.name, value) for p, value in zip(self._inputs, inputs, strict=True)]
        values: list[Any] = []
        for p, dtype, value in zip(self._inputs, self._dtypes, taken, strict=False):
            values.append(scalar(p.name, p.dtype, value) if p.shape is None else arguments.pointer(p, dtype, value))
        if out is None:
            arrays = [aligned_empty(p.shape or (), p.dtype.numpy) for p in self._outputs]
            values.extend([data_pointer(array) for array in arrays])
            library = Library.find(v for p, v in zip(self._inputs, inputs, strict=True) if p.shape is not None)
            results = arrays if library is None else [library.array(array) for array in arrays]
        else:
            results = self._split_out(out)
            arrays = [as_numpy(p.name, array) for p, array in zip(self._outputs, results, strict=True)]
            for p, array in zip(self._outputs, arrays, strict=True):
                values.append(arguments.pointer(p, p.dtype.numpy, array))
                arguments.check_output(p, array)
            arguments.check_overlap(self._compiled.parameters, values, self._sizes)
        self._compiled.prepare()
        status = self._compiled.function(*values, None)
        if status:
            raise_status(status, self.workspace_bytes)
        return results[0] if len(results) == 1 else tuple(results)

    def _split_out(self, out: Any) -> list[Array]:
        """The output arrays of an `out` argument."""
        if len(self._outputs) == 1 and not isinstance(out, tuple):
            return [out]
        if not isinstance(out, tuple) or len(out) != len(self._outputs):
            names = ", ".join(map(str, self._outputs))
            what = f"a tuple of {len(out)}" if isinstance(out, tuple) else a_or_an(type(out).__name__)
            raise KernelError(f"`out` is {what}; `{self.name}` has the outputs ({names})", hint="pass a tuple of them")
        return list(out)

    @property
    def _numba_type_(self) -> Any:
        """The type that Numba knows this kernel by: Numba asks for it where it meets one in `@njit` code."""
        return imports.module("metasched.runtime.numba_typing").KernelType(self)

    @cached_property
    def numba(self) -> Callable[..., Any]:
        """A function for `@njit` code that allocates its results."""
        from metasched.runtime.numba_form import allocating_form

        return allocating_form(self._compiled)

    @cached_property
    def numba_into(self) -> Callable[..., None]:
        """A function for `@njit` code that takes its outputs after its inputs."""
        from metasched.runtime.numba_form import into_form

        return into_form(self._compiled)

    def export(self, path: str | Path) -> Path:
        """Write the kernel as one Python file that needs NumPy and nothing else: the machine code, and a loader.

        The file defines a function of the kernel's name, which takes what this kernel takes, by name too, and gives
        bitwise what it gives; other arguments are a TypeError or a ValueError. It is for Linux on x86-64 and CPUs with
        this target's instruction sets. Its parallel loops run on the process's pool of threads, as those of kernels do.

        Raises KernelError on another kind of machine, and for a path that does not end in `.py`; OSError where the file
        cannot be written.
        """
        from metasched.runtime.export.artefact import export

        return export(self._compiled.binary, path)

    def __copy__(self) -> Self:
        return self  # nothing of it changes

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        given = ", ".join(map(str, self._inputs))
        made = ", ".join(map(str, self._outputs))
        if len(self._outputs) != 1:
            made = f"({made})"
        return f"<kernel {self.name}({given}) -> {made}, {self._machine_name}, {self.origin.label}>"

    def _repr_html_(self) -> str:
        rows = [
            *((p.name, str(p).partition(": ")[2]) for p in self._inputs),
            *((f"-> {p.name}", str(p).partition(": ")[2]) for p in self._outputs),
            ("schedule", self.origin.label),
            ("target", self._machine_name),
            ("workspace", f"{self.workspace_bytes} bytes"),
            *((("report", str(self.report)),) if self.report else ()),
        ]
        return table(
            f"kernel {self.name}",
            rows,
            "" if self.trace is None else collapsible_html("trace", html_text(str(self.trace))),
        )

    @property
    def _machine_name(self) -> str:
        return f"{self.target.name}, {counted(self.target.threads, 'thread')}"
