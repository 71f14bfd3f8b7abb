"""Pickled kernels: program, trace and target are pickled, and compiled again where they are loaded."""

from __future__ import annotations

from typing import Any

from metasched.errors import KernelError
from metasched.ir.program import Program
from metasched.runtime.callable_kernel import CallableKernel, Origin
from metasched.runtime.compiled import CompiledKernel, build
from metasched.runtime.machine_check import lacking_here, refusal
from metasched.schedule.trace import Trace
from metasched.support.data_classes import dataclass
from metasched.target import Target


@dataclass(frozen=True)
class Recipe:
    """What a kernel is compiled from, its origin and report, and what profiles it. It can be pickled."""

    program: Program
    trace: Trace
    target: Target
    report: Any
    origin: Origin
    profiler: Any = None

    @classmethod
    def from_kernel(cls, kernel: CallableKernel) -> Recipe:
        """The recipe of a kernel. Raises KernelError for one that was made without a trace."""
        if kernel.program is None or kernel.trace is None:
            raise KernelError(
                f"`{kernel.name}` was made without a trace, and cannot be pickled", hint="use `ms.compile`"
            )
        return cls(kernel.program, kernel.trace, kernel.target, kernel.report, kernel.origin, kernel.profiler)

    def missing_features(self) -> tuple[str, ...]:
        """The instruction sets of the target that this machine lacks, sorted."""
        return lacking_here(self.target)

    def require_target(self) -> None:
        """Raise KernelError on a machine that cannot run the code: it would end the process there."""
        if self.missing_features():
            hint = "compile it here: `ms.compile(program)`, or with the kernel's `trace`"
            raise refusal(self.target, f"a kernel of {self.program.key}", hint)

    def compile(self) -> CompiledKernel:
        """Compile the program. Raises KernelError where the machine cannot run it."""
        self.require_target()
        return build(self.trace.apply_to(self.program).func, self.target)
