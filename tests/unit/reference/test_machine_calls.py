"""What a math function says of itself to Numba: calls of C's functions in machine code, and Numba for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from llvmlite import ir

from metasched.dtypes import DType
from metasched.functions.registry import functions
from metasched.reference.machine_calls import call
from metasched.reference.machine_code import LoadedFunction
from metasched.reference.machine_operations import I64, register_type
from tests.support.math_domains import domain_of


def compiled(text: str, dtype: DType, arity: int) -> tuple[Callable[..., float], str]:
    """The expression as a function of numbers, and its module."""
    module, kind = ir.Module(), register_type(dtype)
    function = ir.Function(module, ir.FunctionType(I64, [kind.as_pointer()] * (arity + 1)), "run")
    builder = ir.IRBuilder(function.append_basic_block())
    *arguments, result = function.args
    builder.store(call(builder, text, dtype, [builder.load(a) for a in arguments]), result)
    builder.ret(ir.Constant(I64, 0))
    loaded = LoadedFunction(str(module), "run", arity + 1)

    def run(*values: float) -> float:
        out = np.zeros((), dtype.numpy)
        given = [np.array(value, dtype.numpy) for value in values]
        loaded(*(array.ctypes.data for array in (*given, out)))
        return float(out)

    return run, str(module)


@pytest.mark.parametrize("name", sorted(functions()))
def test_no_function_of_ours_needs_numba(name: str) -> None:
    function = functions()[name]
    run, text = compiled(function.numba, DType.F64, function.arity)
    assert "inttoptr" not in text
    values = domain_of(name)[: function.arity]
    assert run(*values) == pytest.approx(function.evaluate(*values), rel=1e-15)


@pytest.mark.parametrize(
    ("text", "dtype", "values", "expected", "by_numba"),
    [
        ("-{0} * 2 + {1} / math.atan2({0}, {1})", DType.F64, (1.5, -0.5), -3.0 - 0.5 / math.atan2(1.5, -0.5), False),
        ("np.sign({0})", DType.F64, (-7.5,), -1.0, True),
        ("1.0 if {0} > 2.0 else math.gamma({0} + 2.0)", DType.F64, (2.0,), 6.0, True),
        ("{0} * {0} + 1", DType.I32, (-7,), 50, True),
        ("abs({0})", DType.I16, (-7,), 7, False),
        ("abs({0})", DType.U8, (200,), 200, False),
    ],
)
def test_any_expression_that_numba_compiles(
    text: str, dtype: DType, values: tuple[float, ...], expected: float, by_numba: bool
) -> None:
    run, module = compiled(text, dtype, len(values))
    assert run(*values) == pytest.approx(expected, rel=1e-15)
    assert ("inttoptr" in module) == by_numba
