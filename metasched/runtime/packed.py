"""Kernels with packed weights: packing them, and calling the kernel afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metasched.errors import KernelError
from metasched.ir.nodes import Func
from metasched.ir.prologue import divide
from metasched.lang.call_arguments import order_arguments
from metasched.runtime import arguments
from metasched.runtime.addresses import aligned_empty
from metasched.runtime.callable_kernel import CallableKernel
from metasched.runtime.compiled import CompiledKernel, KernelArgument, build
from metasched.runtime.foreign import as_numpy
from metasched.runtime.packing import reason_not_ahead
from metasched.runtime.recipe import Recipe
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing
from metasched.support.single_flight import SingleFlight
from metasched.target import Target

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _CompiledParts:
    """The compiled parts of a divided kernel: `held` are the weights that `main` takes as they are. `nothing_ahead`
    says why there is no prologue, if there is none.
    """

    prologue: CallableKernel | None
    main: CallableKernel
    held: tuple[str, ...]
    nothing_ahead: tuple[str, ...] = ()


class _Main(CallableKernel):
    """The part of a divided kernel that takes packed weights: its program and trace are those of the whole."""

    def __init__(self, compiled: CompiledKernel, recipe: Recipe) -> None:
        super().__init__(
            compiled, program=recipe.program, trace=recipe.trace, report=recipe.report, origin=recipe.origin
        )

    def __reduce__(self) -> Any:
        raise KernelError(f"`{self.name}` is the main part of a packed kernel", hint="pickle the packed kernel instead")


@dataclass(frozen=True)
class _Source:
    """What a packed kernel is compiled from again in another process."""

    recipe: Recipe
    weights: tuple[str, ...]


class Packer:
    """Packs a kernel's weights. Compiles once for each choice of which weights are given."""

    def __init__(self, kernel: CallableKernel) -> None:
        self._kernel = kernel
        self._flights: SingleFlight[_CompiledParts] = SingleFlight()
        self._compiled: dict[tuple[str, ...], _CompiledParts] = {}

    def pack(self, weights: Sequence[Any], named: Mapping[str, Any]) -> PackedKernel:
        """Raises KernelError; see `Kernel.pack`."""
        if self._kernel.program is None or self._kernel.trace is None:
            raise KernelError(
                f"`{self._kernel.name}` was made without a trace, and cannot be packed", hint="use `ms.compile`"
            )
        known = tuple(b.name for b in self._kernel.program.func.inputs if b.const)
        given = {name: as_numpy(name, weight) for name, weight in self._weights_by_name(known, weights, named).items()}
        parts = self._compiled_parts(tuple(name for name in known if name in given))
        declared = {p.name: p for p in self._kernel.compiled.parameters}
        checked = {name: _require_weight(declared[name], weight) for name, weight in given.items()}
        before = time.perf_counter()
        arrays = [] if parts.prologue is None else _run_prologue(parts.prologue, checked)
        held = [_aligned_copy(checked[name]) for name in parts.held]
        seconds = time.perf_counter() - before
        source = _Source(Recipe.from_kernel(self._kernel), tuple(name for name in known if name in given))
        return PackedKernel(parts.main, [*held, *arrays], seconds, source, parts.nothing_ahead)

    def _weights_by_name(
        self, known: tuple[str, ...], weights: Sequence[Any], named: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The weights by name."""
        name = self._kernel.name
        if not known:
            inputs = listing(b.name for b in self._kernel.program.func.inputs)
            raise KernelError(
                f"`{name}` has no weights", hint=f"say in the program which of {inputs} are, as `const W: f32[...]`"
            )
        listed = ", ".join(known)
        if len(weights) > len(known):
            raise KernelError(f"`{name}` has the weights ({listed}), and {len(weights)} are given")
        given = dict(zip(known, weights, strict=False))
        for key, value in named.items():
            if key not in known:
                raise KernelError(f"`{key}` is no weight of `{name}`, which has ({listed}): those declared `const`")
            if key in given:
                raise KernelError(f"`{key}` is given twice, in its place and by name")
            given[key] = value
        if not given:
            raise KernelError(f"no weights are given; `{name}` has ({listed})")
        return given

    def _compiled_parts(self, weights: tuple[str, ...]) -> _CompiledParts:
        found = self._compiled.get(weights)
        return self._flights.run(weights, lambda: self._compile(weights)) if found is None else found

    def _compile(self, weights: tuple[str, ...]) -> _CompiledParts:
        if weights in self._compiled:
            return self._compiled[weights]
        kernel = self._kernel
        func: Func = kernel.trace.apply_to(kernel.program).func
        division = divide(func, weights)
        here = kernel.target.runnable_here()  # the weights are packed on this machine, whatever the kernel is for
        prologue = None if division.prologue is None else CallableKernel(build(division.prologue, here))
        main = _Main(build(division.main, kernel.target), Recipe.from_kernel(kernel))
        nothing = (reason_not_ahead(func, weights),) if prologue is None else ()
        self._compiled[weights] = _CompiledParts(prologue, main, division.held, nothing)
        return self._compiled[weights]


def _compiled_again(
    source: _Source, arrays: Sequence[Array], pack_seconds: float, nothing_ahead: tuple[str, ...]
) -> PackedKernel:
    """Unpickle a packed kernel."""
    recipe = source.recipe
    recipe.require_target()
    main = build(divide(recipe.trace.apply_to(recipe.program).func, source.weights).main, recipe.target)
    kernel = _Main(main, recipe)
    return PackedKernel(kernel, [_aligned_copy(array) for array in arrays], pack_seconds, source, nothing_ahead)


def _require_weight(p: KernelArgument, weight: Any) -> Array:
    """Return a weight; raises KernelError for one that its kernel could not be called with."""
    arguments.pointer(p, p.dtype.numpy, weight)
    checked: Array = weight
    return checked


def _run_prologue(prologue: CallableKernel, weights: Mapping[str, Array]) -> list[Array]:
    """Run a prologue on the weights that it takes, and return what it computes of them.

    Layouts may have room that nothing is stored to, and whole vectors compute with it: it is zero, as they are slow
    where denormals are in it.
    """
    parameters = prologue.compiled.parameters
    results = [aligned_empty(p.shape or (), p.dtype.numpy) for p in parameters if p.is_output]
    for array in results:
        array.fill(0)
    taken = (weights[p.name] for p in parameters if not p.is_output)
    prologue(*taken, out=results[0] if len(results) == 1 else tuple(results))
    return results


def _aligned_copy(weight: Array) -> Array:
    array = aligned_empty(weight.shape, weight.dtype)
    array[...] = weight
    return array


class PackedKernel:
    """A kernel with its weights packed: it takes the other arguments, and is otherwise called like a kernel.

    `pack_seconds` is how long packing them took, without compiling; `packed_bytes` the memory that it holds on to.
    Where the schedule computes nothing from the weights alone, it holds copies of them, and `warnings` says why that is
    and what to schedule.
    Nothing of it changes afterwards: several threads may call it at once.
    """

    def __init__(
        self,
        main: CallableKernel,
        arrays: Sequence[Array],
        pack_seconds: float,
        source: _Source,
        nothing_ahead: tuple[str, ...] = (),
    ) -> None:
        self._main = main
        self._nothing_ahead = nothing_ahead
        self._source = source
        self._arrays = tuple(arrays)
        self.pack_seconds = pack_seconds
        self.packed_bytes = sum(array.nbytes for array in arrays)
        inputs = [p for p in main.compiled.parameters if not p.is_output]
        self._inputs = tuple(inputs[: len(inputs) - len(arrays)])

    def __call__(self, /, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Run it on the other arguments in their order, or by name; raises KernelError for what it cannot take."""
        if named:
            inputs = order_arguments(f"`{self.name}`", [p.name for p in self._inputs], inputs, named)
        if len(inputs) != len(self._inputs):
            arguments.check_count(self.name, self._inputs, len(inputs))
        return self._main(*inputs, *self._arrays, out=out)

    def profile(self, /, *inputs: Any, runs: int = 30, **named: Any) -> Any:
        """Where the time of a call with packed weights goes, on these other arguments; see `Kernel.profile`."""
        if named:
            names = [p.name for p in self._inputs]
            inputs = order_arguments(f"`{self.name}`", names, inputs, named, ["runs"])
        arguments.check_count(self.name, self._inputs, len(inputs))
        recipe = self._source.recipe
        if recipe.profiler is None:
            raise KernelError(
                f"`{self.name}` was made without a profiler, and cannot be profiled", hint="use `ms.compile`"
            )
        func = divide(recipe.trace.apply_to(recipe.program).func, self._source.weights).main
        return recipe.profiler(self._main, func, (*inputs, *self._arrays), runs)

    @property
    def name(self) -> str:
        return self._main.name

    @property
    def kernel(self) -> CallableKernel:
        """What is called: the packed arrays are its last inputs."""
        return self._main

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What it holds: copies of weights, then what was computed from them. They are not to be written to."""
        return self._arrays

    @property
    def program(self) -> Any:
        return self._main.program

    @property
    def trace(self) -> Any:
        return self._main.trace

    @property
    def target(self) -> Target:
        return self._main.target

    @property
    def workspace_bytes(self) -> int:
        """Memory for intermediates that one call uses, all threads together; the packed weights are none of it."""
        return self._main.workspace_bytes

    @property
    def llvm(self) -> str:
        """The LLVM module after optimisation."""
        return self._main.llvm

    @property
    def asm(self) -> str:
        """The assembly of the machine code."""
        return self._main.asm

    @property
    def warnings(self) -> tuple[str, ...]:
        """As those of a kernel; and why nothing is computed from the weights ahead, where nothing is."""
        return (*self._nothing_ahead, *self._main.warnings)

    def export(self, path: str | Path) -> Path:
        """Write it as one Python file with the packed weights in it, as `Kernel.export` does."""
        from metasched.runtime.export.artefact import export

        return export(self._main.compiled.binary, path, self._arrays)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """It is pickled as program, trace, target and packed weights, and compiled again when it is loaded."""
        return _compiled_again, (self._source, self._arrays, self.pack_seconds, self._nothing_ahead)

    def __copy__(self) -> PackedKernel:
        return self  # nothing of it changes

    def __deepcopy__(self, _memo: object) -> PackedKernel:
        return self

    def __repr__(self) -> str:
        given = ", ".join(map(str, self._inputs))
        return f"<packed kernel {self.name}({given}), {self.packed_bytes} bytes packed, {self.target.name}>"
