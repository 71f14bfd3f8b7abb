"""Whether a program is an operator, whatever its sizes and its names, and what the operator's traces say of it."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.operators.matching import fits
from metasched.operators.structure import names_between

SOFTMAX = """
top[r] = max[c](T[r, c])
e[r, c] = exp(T[r, c] - top[r])
s[r] = sum[c](e[r, c])
P[r, c] = e[r, c] / s[r]
"""


def matched(text: str, *shapes: tuple[int, ...], dtype: type = np.float32) -> list[str]:
    program = ms.kernel(text).program(*(np.ones(shape, dtype) for shape in shapes))
    return [fit.expert.name for fit in fits(program)]


def test_an_operator_of_the_library_at_any_parameters() -> None:
    found = [fit.expert.name for fit in fits(operators.load("conv2d_nhwc", H=5, W=9, CI=8, CO=4, R=2, S=2, P=0, G=2))]
    assert found == [f"conv2d_nhwc.{variant}" for variant in operators.expert_traces("conv2d_nhwc")]


def test_the_same_stages_under_other_names() -> None:
    assert matched("Z[a, b] = sum[q](Y[q, b] * X[a, q])", (5, 3), (7, 5)) == matched(
        "C[i, j] = sum[k](A[i, k] * B[k, j])", (7, 5), (5, 3)
    )
    assert "softmax.fast" in matched(SOFTMAX, (4, 9))


@pytest.mark.parametrize(
    "text",
    [
        "C[i, j] = max[k](A[i, k] * B[k, j])",  # another reduction
        "C[i, j] = sum[k](A[i, k] + B[k, j])",  # another operation
        "C[i, j] = sum[k](exp(A[i, k]) * B[k, j])",  # one more
        "C[i, j] = sum[k](A[i, k] * A[k, j])",  # one input
    ],
)
def test_what_differs_in_structure_is_no_matmul(text: str) -> None:
    assert matched(text, *[(6, 6)] * (2 if "B" in text else 1)) == []


def test_blocks_and_tensors_have_names_of_their_own() -> None:
    one = ms.parse_program("program f[N=4](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] * 2\n")
    other = ms.parse_program("program g[N=9](B: f32[N]) -> A: f32[N]:\n    twice: A[j] = 3 * B[j]\n")
    names = names_between(one.func, other.func)
    assert names is not None
    assert (names.blocks, names.tensors) == ({"B": "twice"}, {"A": "B", "B": "A"})
    text = "program h[N=4](A: f32[N], B: f32[N]) -> C: f32[N]:\n    C[i] = A[i] * {} + B[i]\n"
    same, square = ms.parse_program(text.format("B[i]")), ms.parse_program(text.format("A[i]"))
    assert names_between(same.func, square.func) is None
    assert names_between(square.func, same.func) is None


def test_a_trace_in_the_programs_names() -> None:
    program = ms.kernel(SOFTMAX).program(np.ones((4, 40), np.float32))
    (fit,) = (fit for fit in fits(program) if fit.expert.name == "softmax.fast")
    trace = fit.trace_for(program)
    assert 'get_block("top")' in str(trace)
    assert 'get_block("maximum")' not in str(trace)
    assert trace.apply_to(program, ms.Policy.REPAIR).trace.data.program == program.name


def test_a_copy_of_a_renamed_tensor() -> None:
    program = ms.kernel("Z[a, b] = sum[q](Y[q, b] * X[a, q])").program(np.ones((80, 96), "f4"), np.ones((64, 80), "f4"))
    (fit,) = (fit for fit in fits(program) if fit.expert.name == "matmul_nn.packed")
    assert 'cache_read(C, "Y")' in str(fit.trace_for(program))
