"""The kernel that a user holds: a callable kernel that can be packed and pickled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metasched.errors import KernelError
from metasched.ir.program import Program
from metasched.lang.call_arguments import order_arguments
from metasched.runtime.callable_kernel import CallableKernel, Origin, Profile, Profiler, Report_co
from metasched.runtime.compiled import CompiledKernel
from metasched.runtime.packed import PackedKernel, Packer
from metasched.runtime.recipe import Recipe
from metasched.schedule.trace import Trace
from metasched.support.cached import cached_property


class Kernel(CallableKernel[Report_co]):
    """A compiled program: `kernel(A, B)` returns new arrays, `kernel(A, B, out=D)` writes one that is given.

        >>> kernel = ms.compile(prog, rules="vectorize")
        >>> kernel(np.zeros((4, 8), np.float32), np.zeros(8, np.float32)).shape
        (4, 8)

    Arguments are C-contiguous NumPy arrays of the compiled shapes and dtypes, or such arrays of other libraries in the
    CPU's memory (PyTorch's tensors; DLPack, or NumPy's array interface), which results are of then. Anything else is a
    KernelError, never a hidden copy. An output may not overlap another argument. A call releases the GIL, and several
    threads may call one kernel at once. Several outputs are returned as a tuple, and given as one.

    In `@njit` code `kernel(A, B)`, or `kernel.numba(A, B)`, allocates its result, and `kernel.numba_into(A, B, D)` does
    not. Numba has no arrays of the types of storage, such as f16; there they are their bits, as
    `A.view(numpy.uint16)`.
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
        super().__init__(compiled, program=program, trace=trace, report=report, origin=origin, profiler=profiler)

    def profile(self, /, *inputs: Any, runs: int = 30, **named: Any) -> Profile:
        """Where the time of a call goes, on these inputs: print it, or read its `parts`.

            print(kernel.profile(A, B))

        Every nest at the root of the scheduled program, and what those have in a sequence inside, is timed by counters
        in a variant that is compiled for that; the kernel's own code stays as it is. Beside its time stands what share
        of the machine's limit it reaches, by the constants that `ms.calibrate` has measured. Returns a
        `metasched.report.profile.CallProfile` of medians over `runs` calls. Raises KernelError for inputs that the
        kernel cannot take, and for a kernel that was made without a trace.
        """
        if named:
            inputs = order_arguments(f"`{self.name}`", [p.name for p in self._inputs], inputs, named, ["runs"])
        if self.profiler is None or self.program is None or self.trace is None:
            raise KernelError(
                f"`{self.name}` was made without a trace, and cannot be profiled", hint="use `ms.compile`"
            )
        return self.profiler(self, self.trace.apply_to(self.program).func, inputs, runs)

    def pack(self, *weights: Any, **named: Any) -> PackedKernel:
        """This kernel with its weights fixed: `kernel.pack(W)(X)` is bitwise `kernel(X, W)`.

        Weights are the inputs declared `const`, given in their order or by name; those not given stay arguments. What
        the schedule computes at the root of the program from them alone, such as a copy in a packed layout, is
        computed now and never again. Weights that are read as they are too are copied. A schedule that computes nothing
        from them alone is packed, too: it reads its copies, and `warnings` says why, and what to schedule.

        Raises KernelError for an input that is not `const`. The first call compiles; later ones, with other weights, do
        not.
        """
        return self._packer.pack(weights, named)

    @cached_property
    def _packer(self) -> Packer:
        return Packer(self)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """How the kernel is pickled: as program, trace and target, compiled again when it is loaded."""
        return compiled_again, (Recipe.from_kernel(self),)


def compiled_again(recipe: Recipe) -> Kernel:
    """Unpickle a kernel: that of a recipe. Raises KernelError where the machine cannot run it."""
    compiled = recipe.compile()
    return Kernel(
        compiled,
        program=recipe.program,
        trace=recipe.trace,
        report=recipe.report,
        origin=recipe.origin,
        profiler=recipe.profiler,
    )


__all__ = ["Kernel", "Origin", "compiled_again"]
