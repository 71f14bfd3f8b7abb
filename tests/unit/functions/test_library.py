"""Every math function keeps its stated error over the whole range, and has IEEE's special values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from metasched.compiler.cpu.emit.formulas import define
from metasched.compiler.cpu.emit.native import Native
from metasched.dtypes import DType
from metasched.functions.registry import functions
from metasched.ir.nodes import Call
from tests.support.lir_runner import block, ld, loop, program, run, v, vector, write

Floats = npt.NDArray[np.floating]
Extended = np.longdouble
FLOATS = pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
FUNCTION = pytest.mark.parametrize("name", sorted(functions()))
extended = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="needs a float type with more bits than double to compare with"
)


def sigmoid(x: Floats) -> Floats:
    small = np.exp(-np.abs(x))
    found: Floats = np.where(x < 0, small, Extended(1)) / (1 + small)
    return found


REFERENCES: Mapping[str, Callable[..., Floats]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": lambda x: special.erf(x.astype(np.float64)).astype(Extended),
    "erfc": lambda x: np.vectorize(math.erfc)(x.astype(np.float64)).astype(Extended),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "pow": np.power,
    "rint": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
# The reference's own error, in ulp of the result.
SLACK = {("erf", DType.F64): 3.0, ("erfc", DType.F64): 1.0, ("sqrt", DType.F64): 2.0**-10}


def apply(name: str, lanes: int, *xs: Floats) -> Floats:
    """The function over arrays, as machine code."""
    (out,) = each_way(name, (lanes,), *xs)
    return out


def each_way(name: str, ways: tuple[int, ...], *xs: Floats) -> list[Floats]:
    """In vectors of so many lanes, or as scalars where that is 0: one kernel that has a loop for each."""
    dtype = next(d for d in DType if d.numpy == xs[0].dtype)
    size = xs[0].size
    value = Call(name, tuple(ld(f"x{n}", v("i"), dtype) for n in range(len(xs))), dtype)
    names = [f"out{lanes}" for lanes in ways]
    stmts = [
        vector("i", size, lanes, write(out, v("i"), value)) if lanes else loop("i", size, write(out, v("i"), value))
        for out, lanes in zip(names, ways, strict=True)
    ]
    arrays = {f"x{n}": x for n, x in enumerate(xs)}
    kernel = program(block(*stmts), dict.fromkeys(arrays, (dtype, size)), dict.fromkeys(names, (dtype, size)))
    found = run(kernel, arrays)
    return [found[out] for out in names]


def expected(name: str, *xs: Floats) -> Floats:
    """In extended precision; what the type cannot hold is infinite."""
    with np.errstate(all="ignore"):
        out = REFERENCES[name](*(x.astype(Extended) for x in xs))
        largest = Extended(np.finfo(xs[0].dtype).max)
        too_large = np.abs(out) > largest * (1 + Extended(2) ** -(np.finfo(xs[0].dtype).nmant + 2))
        return np.where(too_large, np.copysign(Extended(np.inf), out), out)


def errors_in_ulp(got: Floats, wanted: Floats) -> Floats:
    """Infinite where one is a NaN or an infinity and the other another thing."""
    with np.errstate(all="ignore"):
        rounded = wanted.astype(got.dtype)
        ulp = np.abs(got.astype(Extended) - wanted) / np.spacing(np.abs(rounded)).astype(Extended)
    alike = (np.isnan(got) & np.isnan(wanted)) | (got == rounded)
    odd = ~(np.isfinite(got) & np.isfinite(wanted))
    return np.where(odd, np.where(alike, 0.0, np.inf), ulp)


def specials(dtype: DType) -> Floats:
    info = np.finfo(dtype.numpy)
    values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 1e10, np.inf, info.max, info.tiny, info.smallest_subnormal, info.eps]
    return np.array([*values, *(-x for x in values), np.nan], dtype.numpy)


def over_the_range(dtype: DType, seed: int) -> Floats:
    """Numbers of every size, and many of those where functions bend."""
    rng, n = np.random.default_rng(seed), 12_000
    words = rng.integers(0, 2**dtype.bits - 1, n, dtype=np.uint64, endpoint=True)
    every = words.astype(f"u{dtype.bytes}").view(dtype.numpy)
    reach = 100.0 if dtype is DType.F32 else 720.0
    parts = [
        rng.uniform(-1, 1, n),
        rng.uniform(-20, 20, n),
        rng.uniform(-reach, reach, n),
        rng.choice([-1, 1], n) * np.exp(rng.uniform(-30, 12, n)),
        1 + rng.uniform(-0.01, 0.01, n),
        rng.integers(-60_000, 60_000, n) * (np.pi / 2),
        specials(dtype),
    ]
    return np.concatenate([every, *(p.astype(dtype.numpy) for p in parts)])


def arguments(name: str, dtype: DType) -> tuple[Floats, ...]:
    if functions()[name].arity == 1:
        return (over_the_range(dtype, 1),)
    rng, n = np.random.default_rng(2), 20_000
    a, b = np.meshgrid(specials(dtype), specials(dtype))
    bases = [over_the_range(dtype, 1), np.exp(rng.uniform(-5, 5, n)), rng.uniform(0.9, 1.1, n), rng.uniform(-9, 9, n)]
    powers = [rng.permutation(over_the_range(dtype, 3)), rng.uniform(-90, 90, n), rng.uniform(-900, 900, n)]
    powers.append(rng.integers(-20, 20, n).astype(np.float64))
    return (
        np.concatenate([x.astype(dtype.numpy) for x in (*bases, a.ravel())]),
        np.concatenate([x.astype(dtype.numpy) for x in (*powers, b.ravel())]),
    )


def test_every_function_has_a_row() -> None:
    assert set(REFERENCES) == set(functions()), "a math function has a row here: its value in extended precision"


@extended
@FLOATS
@FUNCTION
def test_errors_stay_within_the_stated_ulp(name: str, dtype: DType) -> None:
    xs = arguments(name, dtype)
    errors = errors_in_ulp(apply(name, 16, *xs), expected(name, *xs))
    worst = int(np.argmax(errors))
    where = ", ".join(repr(float(x[worst])) for x in xs)
    limit = functions()[name].ulp[dtype] + SLACK.get((name, dtype), 0.0)
    assert errors[worst] <= limit, f"{name}({where}) is {float(errors[worst]):.2f} ulp off"


@FLOATS
@FUNCTION
def test_zeros_keep_their_sign(name: str, dtype: DType) -> None:
    grids = np.meshgrid(*[specials(dtype)] * functions()[name].arity)
    xs = tuple(g.ravel() for g in grids)
    got, wanted = apply(name, 8, *xs), expected(name, *xs)
    zero = (got == 0) & (wanted == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(wanted[zero]))


@FLOATS
@FUNCTION
def test_scalars_and_tails_give_the_bits_of_vectors(name: str, dtype: DType) -> None:
    xs = tuple(x[:1001] for x in arguments(name, dtype))
    vectors, *others = each_way(name, (16, 0, 4), *xs)
    for found in others:
        np.testing.assert_array_equal(found, vectors)


@pytest.mark.parametrize(("scales", "selections"), [(True, 2), (False, 3)])
def test_an_exponential_takes_no_steps_for_what_underflows_where_powers_scale_at_once(
    scales: bool, selections: int
) -> None:
    declarations: dict[str, str] = {}
    symbol = define(functions()["exp"], DType.F32, 16, Native(scales=scales), declarations)
    assert declarations[symbol].count(" = select ") == selections
