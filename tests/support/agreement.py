"""Whether a kernel computes what its program says: on integers exactly, on random data within what rounding allows."""

from __future__ import annotations

import numpy as np

import metasched as ms
from metasched.measure.checking.arithmetic import arithmetic_of
from metasched.measure.checking.check import CheckCase, mismatch, prepare
from metasched.measure.checking.inputs import Inputs, given_inputs


def check_kernel(kernel: ms.Kernel, program: ms.Program, inputs: Inputs | None = None) -> None:
    """`inputs` says what data an argument takes, as `ms.tune` does."""
    by = arithmetic_of(str(kernel.trace)).computation_of(program)
    cases = prepare(program.func, given_inputs(program.func, inputs, seed=0), seed=0, by=by)
    for case in (cases.integers, cases.random):
        _check_case(kernel, program, case)


def _check_case(kernel: ms.Kernel, program: ms.Program, case: CheckCase) -> None:
    result = kernel(*(a.item() if a.shape == () else a for a in case.inputs))
    results = result if isinstance(result, tuple) else (result,)
    for buffer, actual, expected, tolerance in zip(
        program.outputs, results, case.expected, case.tolerance, strict=True
    ):
        wrong = mismatch(np.asarray(actual), expected, tolerance)
        assert wrong is None, f"{program.key}: `{buffer.name}`: {wrong}"
