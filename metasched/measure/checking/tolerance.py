"""How far a correct kernel may be from the float64 reference, and when it must not differ at all.

**Rounding.** Let `t_i` be the terms of a sum of length n, `u` the unit roundoff (2**-24 for f32) and `B = sum |t_i|`.
Added in any order, each term passes through at most n - 1 additions, so the result differs from the exact one by at
most `n u B` to first order (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2). That worst case needs
all roundings to conspire: with roundings of mean zero, the difference stays within `8 sqrt(n) u B` but with a
probability of at most `2 exp(-8**2 / 2)`, 3e-14 (Higham and Mary, A new approach to probabilistic rounding error
analysis, SIAM J. Sci. Comput. 41, 2019, theorem 2.4). So a block of reduction length n and m other roundings on the
way of a term contributes `min(n, 8 sqrt(n)) + m` roundings for data that we draw, and `n + m` for data that the user
gives, which may be far from random (many equal numbers round the same way each time). Blocks add up. `B` is carried
through stages by `metasched.reference.error_bounds`.

At n = 2304 the tolerance is 2.3e-5 B for data that we draw. Their magnitudes lie in [0.25, 1.25], so that a product of
two is at least 0.11 of the mean one, 4.9e-5 B: one dropped term of a matrix product is always seen, at any length up to
about 10,000.

**Permissions.** A result of Winograd's F(m, r) differs from the exact one, to first order, by at most

    |A^T| ((|G| |g|) * (|B^T| |d|)) * (alpha + beta + gamma + 1) * u,

summed over channels: theorem 1 of Barabasz, Anderson, Soodhalter and Gregg 2020, "Error Analysis and Improving the
Accuracy of Winograd Convolution for Deep Neural Networks" (ACM Trans. Math. Softw. 46), where alpha, beta and gamma
count the roundings of the three transforms; along two axes (theorem 2) there are twice as many. We count the roundings
in the program that has the transforms, and take the matrices by their norms: `kappa max(B)` in the place of B, with

    kappa = max_k norm_i(A^T[k, i] norm(G[i]) norm(B^T[i])) / norm(r ones)

along each axis, for two axes the product. It is the same for all elements, as a result depends on its whole tile. For
data that the user gives it is the 1-norm; for data that we draw, whose signs are independent, the 2-norm: for a window
of 3 x 3, kappa is then 1.7 at m = 2, 31 at m = 4 and 47 at m = 6.

With `fastmath` a quotient may be a product with a reciprocal that is refined. `flush_denormals` needs no more than is
there for every f32 and bf16: what is smaller than the smallest normal number may be zero.

Each operation rounds to its own type. f16 and bf16 are rounded to where they are stored, which the program says as a
cast: one such rounding counts as much as 2**13 (f16) or 2**16 (bf16) of f32.

**Exactness.** Sums and products of small integers are exact in floats as long as nothing goes beyond 2**24 (f32) or
2**53 (f64; 2**11 in f16, 2**8 in bf16), in any order. `exact_magnitude` bounds every value of a program that only adds,
multiplies, and takes maxima and minima.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.dtypes import DType, integer_range, is_float
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Call,
    Cast,
    Const,
    Expr,
    Func,
    IterKind,
    Load,
    Reducer,
    Select,
    Unary,
    UnOp,
)
from metasched.measure.checking.arithmetic import Computation

_CONFIDENCE = 8.0
_DOUBTFUL, _NEXT_TO_NOTHING = 1e3, 1e-20
_CALL_ROUNDINGS = 8  # a math function may be a few units in the last place off
_FAST_DIVISION_ROUNDINGS = 4  # of an approximate reciprocal, a step of Newton's method, and a product
_EXACT_CALLS = frozenset({"abs", "floor", "ceil", "rint"})


class DataKind(Enum):
    """Where the numbers that are summed come from, which says how roundings add up."""

    DRAWN = "drawn"  # by us, at random: nearly all roundings cancel
    GIVEN = "given"  # by the user: they may all go the same way


def tolerances(by: Computation, bound: NDArray[np.float64], dtype: DType, data: DataKind) -> NDArray[np.float64] | None:
    """How far each element of an output may be from the reference; None when it may not differ.

    The results are computed `by` what may be another program. `bound` is the sum of the absolute terms (see above).
    An element whose bound is not finite gets an infinite tolerance: nothing can be said about it. Integers that depend
    on no float must match, and those that floats are rounded to where these are no further from a jump than rounding.
    """
    if not dtype.is_float and not np.any(bound):
        return None
    bound = _amplify_bound(bound, by.amplification_of_drawn if data is DataKind.DRAWN else by.amplification)
    relative, absolute = _errors(by, data)
    allowed = relative * bound + absolute if dtype.is_float else np.floor(relative * bound)
    return np.where(np.isfinite(allowed), allowed, np.inf)


def with_doubtful_free(allowed: NDArray[np.float64] | None, expected: NDArray[Any]) -> NDArray[np.float64] | None:
    """Tolerances that are infinite where an element may be off by a thousand times the largest expected: what it is
    made of may be zero by rounding, as what underflows before a logarithm, and the element itself infinite."""
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    if allowed is None or not finite.size:
        return allowed
    return np.where(allowed > _DOUBTFUL * max(finite.max(), _NEXT_TO_NOTHING), np.inf, allowed)


def position_tolerances(by: Computation, bound: NDArray[np.float64], data: DataKind) -> NDArray[np.float64] | None:
    """How far positions that an arg-reduction over floats finds may be off: any is right among values nearer to one
    another than rounding can tell, others must match.
    """
    if not np.any(bound):
        return None
    return np.where(_errors(by, data)[0] * bound >= 1.0, np.inf, 0.0)


def _errors(by: Computation, data: DataKind) -> tuple[float, float]:
    """The relative error of results, of their bound, and the absolute one."""
    relative = absolute = 0.0
    for kind, count in roundings(by.func, data, fastmath=by.fastmath).items():
        relative += count * kind.unit_roundoff
        # An f16 is rounded to where it is subnormal; of others nothing is asked there.
        absolute += count * kind.smallest_normal * (2 * kind.unit_roundoff if kind is DType.F16 else 1.0)
    return relative, absolute


def _amplify_bound(bound: NDArray[np.float64], amplification: float) -> NDArray[np.float64]:
    """The bound where errors are larger, and depend on all elements of a tile: as for the largest of all."""
    finite = bound[np.isfinite(bound)]
    if not amplification or not finite.size:
        return bound
    return np.where(np.isfinite(bound), amplification * finite.max(), bound)


def roundings(func: Func, data: DataKind, *, fastmath: bool = False) -> dict[DType, float]:
    """How many roundings to each type count against a result of `func`; see the module's text."""
    counts: defaultdict[DType, float] = defaultdict(float)
    is_drawn = data is DataKind.DRAWN
    for block in blocks(func):
        kind = block.store.value.dtype.compute
        if kind.is_float:
            length = reduction_length(block) if block.reducer in (Reducer.SUM, Reducer.PROD) else 1
            counts[kind] += min(length, _CONFIDENCE * math.sqrt(length)) if is_drawn else length
        for dtype, count in _roundings_in(block.store.value, fastmath).items():
            counts[dtype] += count
    for kind in counts:
        counts[kind] += 0 if kind.is_storage else 2.0  # the last store's, and second-order terms
    # The reference rounds, too: in float64, which counts only against float64.
    return {kind: count * (2.0 if kind is DType.F64 else 1.0) for kind, count in counts.items()}


def blocks(func: Func) -> list[Block]:
    """The blocks of a program, in order."""
    return [node for node in func.body.walk() if isinstance(node, Block)]


def reduction_length(block: Block) -> int:
    """The number of terms that end in one element; 1 when the block does not reduce."""
    length = 1
    for iteration in block.iters:
        if iteration.kind is IterKind.REDUCE:
            extent = as_int(iteration.extent)
            assert extent is not None, "programs that are measured have constant extents"
            length *= extent
    return length


def _roundings_in(e: Expr, fastmath: bool) -> Counter[DType]:
    """How many roundings to each type an expression is worth; of a choice, one side and the condition are evaluated."""
    if isinstance(e, Select):
        return _roundings_in(e.cond, fastmath) + (
            _roundings_in(e.then, fastmath) | _roundings_in(e.otherwise, fastmath)
        )
    found: Counter[DType] = Counter({e.dtype: _roundings_of(e, fastmath)} if e.dtype.is_float else {})
    for child in e.children():
        if isinstance(child, Expr):
            found += _roundings_in(child, fastmath)
    return found


def _roundings_of(node: Expr, fastmath: bool) -> int:
    """How many roundings one operation on floats is worth."""
    if isinstance(node, Call):
        return _CALL_ROUNDINGS
    if fastmath and isinstance(node, Binary) and node.op is BinOp.DIV:
        return _FAST_DIVISION_ROUNDINGS
    widens = isinstance(node, Cast) and node.value.dtype.is_float and node.value.dtype.bits <= node.dtype.bits
    return int(isinstance(node, Binary | Cast) and not widens)


def exact_magnitude(func: Func, inputs: Mapping[str, NDArray[Any]]) -> bool:
    """Whether every float in a run of `func` on these inputs is an integer that its type holds exactly.

    True means that any order of any reduction gives the same bits. `inputs` are arrays, or scalars as arrays, by
    name. The bound is one number per buffer, so False says only that it could not be shown.
    """
    largest: dict[str, float] = {}
    for name, array in inputs.items():
        if is_float(array.dtype) and not np.array_equal(array, np.rint(array)):
            return False
        largest[name] = float(np.max(np.abs(array.astype(np.float64)), initial=0.0))
    for block in blocks(func):
        magnitude = _reduced_magnitude(block, largest)
        if magnitude is None:
            return False
        buffer = func.buffer(block.store.buffer)
        if buffer.dtype.is_float and magnitude > 2.0**buffer.dtype.significand:
            return False
        largest[buffer.name] = max(largest.get(buffer.name, 0.0), magnitude)
        if block.index is not None:
            largest[block.index.buffer] = float(reduction_length(block))
    return True


def _reduced_magnitude(block: Block, largest: Mapping[str, float]) -> float | None:
    value = _magnitude(block.store.value, largest)
    if value is None:
        return None
    if block.reducer is Reducer.SUM:
        return value * reduction_length(block)
    if block.reducer is Reducer.PROD:
        length = reduction_length(block)
        return max(1.0, value) ** length if length * math.log2(max(1.0, value)) < 64 else math.inf
    return value


def _magnitude(e: Expr, largest: Mapping[str, float]) -> float | None:
    """A bound of `|e|` and of all that it is made of; None when `e` may not be an integer."""
    found = _unwrapped_magnitude(e, largest)
    return float(integer_range(e.dtype)[1]) if found is not None and _wraps_below_zero(e) else found


def _wraps_below_zero(e: Expr) -> bool:
    """Whether a number without a sign may be made of one below zero, which is as far from zero as its type goes."""
    if not e.dtype.is_unsigned:
        return False
    negative = isinstance(e, Unary) or (isinstance(e, Binary) and e.op is BinOp.SUB)
    return negative or (isinstance(e, Cast) and e.value.dtype.is_integer and not e.value.dtype.is_unsigned)


def _unwrapped_magnitude(e: Expr, largest: Mapping[str, float]) -> float | None:
    if isinstance(e, Const):
        return abs(float(e.value)) if float(e.value).is_integer() else None
    if isinstance(e, Load):
        return largest.get(e.buffer, math.inf)
    if isinstance(e, Unary):
        return _magnitude(e.a, largest) if e.op is UnOp.NEG else None
    if isinstance(e, Cast):
        return _cast_magnitude(e, largest)
    if isinstance(e, Select):
        return _larger(_magnitude(e.then, largest), _magnitude(e.otherwise, largest))
    if isinstance(e, Call) and e.func in _EXACT_CALLS:
        return _magnitude(e.args[0], largest)
    return _binary_magnitude(e, largest) if isinstance(e, Binary) else None


def _cast_magnitude(e: Cast, largest: Mapping[str, float]) -> float | None:
    value = _magnitude(e.value, largest)
    exact = value is not None and (not e.dtype.is_float or value <= 2.0**e.dtype.significand)
    return value if exact else None


def _binary_magnitude(e: Binary, largest: Mapping[str, float]) -> float | None:
    a, b = _magnitude(e.a, largest), _magnitude(e.b, largest)
    if a is None or b is None:
        return None
    if e.op in (BinOp.ADD, BinOp.SUB):
        return a + b
    if e.op is BinOp.MUL:
        return max(a, 1.0) * max(b, 1.0)
    return max(a, b) if e.op in (BinOp.MIN, BinOp.MAX) else None


def _larger(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else max(a, b)


def divides(func: Func) -> bool:
    """Whether floats are divided, which `fastmath` does with more roundings."""
    return any(isinstance(n, Binary) and n.op is BinOp.DIV and n.dtype.is_float for n in func.body.walk())
