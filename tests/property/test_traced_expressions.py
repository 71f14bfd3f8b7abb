"""Random expressions of arrays: traced, they give what NumPy gives, in its types and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

import metasched as ms
from tests.support.traced_functions import check

TYPES = (np.float32, np.float64, np.int32, np.int8, np.uint8, np.bool_)
SHAPES = ((2, 3), (3,), (2, 1), (), (1, 2, 3))
UNARY: tuple[Any, ...] = (
    np.tanh,
    np.abs,
    np.isfinite,
    np.logical_not,
    np.square,
    lambda x: x.T,
    lambda x: x[None],
    lambda x: x.sum(-1, keepdims=True) if x.ndim else x,
    lambda x: x.max(0) if x.ndim else x,
    np.mean,
    lambda x: x.reshape(-1),
    lambda x: x[..., ::-1] if x.ndim else x,
    lambda x: x.astype(np.float32),
)
BINARY: tuple[Any, ...] = (
    np.add,
    np.multiply,
    np.maximum,
    np.less,
    np.logical_or,
    lambda x, y: np.where(x > y, x, y),
    lambda x, y: np.concatenate([np.ravel(x), np.ravel(y)]),
)
NUMBERS = (2, 0.5, True, np.float32(1.5), np.int64(3))


@st.composite
def functions(draw: st.DrawFn) -> Any:
    """A function of two arrays: steps over a list of values, of which the last is the result."""
    steps = draw(
        st.lists(
            st.one_of(
                st.tuples(st.sampled_from(UNARY), st.integers(0, 9)),
                st.tuples(st.sampled_from(BINARY), st.integers(0, 9), st.integers(0, 9)),
                st.tuples(st.sampled_from(BINARY[:5]), st.integers(0, 9), st.sampled_from(NUMBERS)),
            ),
            min_size=1,
            max_size=5,
        )
    )

    def function(*arrays: Any) -> Any:
        values = list(arrays)
        for step, *operands in steps:
            taken = [values[n % len(values)] if type(n) is int and k == 0 else n for k, n in enumerate(operands)]
            if len(operands) == 2 and type(operands[1]) is int and step not in BINARY[:5]:
                taken[1] = values[operands[1] % len(values)]
            values.append(step(*taken))
        return values[-1]

    return function


@settings(max_examples=60, deadline=None)
@given(functions(), st.data())
def test_a_traced_expression_gives_what_numpy_gives(function: Any, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 99))
    random = np.random.default_rng(seed)
    arrays = [
        np.asarray(random.integers(0, 4, data.draw(st.sampled_from(SHAPES))), data.draw(st.sampled_from(TYPES)))
        for _ in range(2)
    ]
    try:
        with np.errstate(all="ignore"):
            wanted = function(*arrays)
    except (ValueError, TypeError, IndexError, OverflowError):
        reject()  # NumPy has no such expression: another one is tried instead
    assume(wanted.dtype not in (np.uint64, np.uint16))
    try:
        check(function, *arrays, tolerance=1e-2 if wanted.dtype == np.float16 else 1e-4)
    except ms.TraceError as error:
        assume("no element type" not in str(error))
        raise
