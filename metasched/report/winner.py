"""The best kernel of a search, run here once more to see where the time of its call goes."""

from __future__ import annotations

from metasched.errors import MetaschedError
from metasched.lang import parse_program
from metasched.measure.checking.inputs import given_inputs, random_inputs
from metasched.report.analysis import TuningAnalysis
from metasched.report.profile import CallProfile, profile_kernel
from metasched.runtime.callable_kernel import CallableKernel, Origin
from metasched.runtime.kernel import Kernel
from metasched.runtime.recipe import Recipe
from metasched.schedule.trace import Trace
from metasched.support.data_classes import dataclass
from metasched.target import Target

_PROFILED_RUNS = 20


@dataclass(frozen=True)
class WinnerProfile:
    """Where the time of the best kernel's call goes; without a profile, `obstacle` says why."""

    profile: CallProfile | None
    obstacle: str = ""


def profile_on_random_data(kernel: CallableKernel) -> CallProfile:
    """Where the time of a call goes, of a kernel that has a program and a trace. Raises KernelError as it does."""
    func = kernel.program.func
    inputs = random_inputs(func, given_inputs(func, None, 0), 0)
    return profile_kernel(kernel, kernel.trace.apply_to(kernel.program).func, tuple(inputs.values()), _PROFILED_RUNS)


def winner_profile(analysis: TuningAnalysis) -> WinnerProfile:
    """Compile the best kernel of a search and run it on random data, where this machine can."""
    if not analysis.trace:
        return WinnerProfile(None, "no candidate was valid")
    try:
        program = parse_program(analysis.program, **dict(analysis.params))
        target = Target.parse(analysis.target)
        recipe = Recipe(program, Trace.parse(analysis.trace), target, None, Origin.MEASURED)
        return WinnerProfile(profile_on_random_data(Kernel(recipe.compile(), program=program, trace=recipe.trace)))
    except MetaschedError as error:  # the page says so; all else in it is as it was measured
        return WinnerProfile(None, str(error).splitlines()[0])
