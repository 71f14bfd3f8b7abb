"""Whether index arithmetic fits in 64 bits, where lowering is done with it.

Lowering and emission reason about mathematical integers, and code computes modulo 2**64. The two agree in sums and
products whatever is in between. In comparisons, quotients, remainders, minima, maxima, conversions to floats and the
bounds of loops they agree where the operands fit in 64 bits: that is checked here, over all iterations, whatever
conditions are around. Arithmetic over data wraps, and lowering does not reason about it.

Cost: one visit of each distinct expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from metasched.compiler import lir
from metasched.dtypes import INDEX, holds_range, integer_range
from metasched.errors import BuildError
from metasched.ir.integers.bit_ranges import range_of_bits
from metasched.ir.integers.data import depends_on_data
from metasched.ir.node_base import Node
from metasched.ir.nodes import Binary, BinOp, Cast, Const, Expr, Load, ScalarVar, Select, Unary, UnOp, Var
from metasched.ir.printer import print_expr

Interval = tuple[int, int]  # inclusive

_RING_OPS = (BinOp.ADD, BinOp.SUB, BinOp.MUL)
# Where the magnitudes of all terms add up to less, no part of their sum leaves 64 bits, in whatever order it is taken.
_NO_WRAP_LIMIT = 2**61
# A parallel loop's iterations are shared out by multiplying them with the number of chunks.
_MOST_PARALLEL_ITERATIONS = 2**48


def index_arithmetic_wraps(body: lir.LStmt) -> bool:
    """Whether some sum or product in index arithmetic may leave 64 bits on the way, which changes no result.

    Raises:
        BuildError: where it would change one.
    """
    widths = _Widths()
    widths.enter_body(body)
    return widths.wraps


class _Widths:
    def __init__(self) -> None:
        self.wraps = False
        self._loops: dict[str, int] = {}
        self._intervals: dict[Expr, Interval] = {}
        self._magnitudes: dict[Expr, int] = {}

    def enter_body(self, body: lir.LStmt) -> None:
        # Loops come before what is inside them. Copies of a loop share its name: the longest counts.
        for node in body.walk():
            if isinstance(node, lir.Loop | lir.VectorLoop):
                longest = self._require_fit(node.extent, "the iterations of a loop")[1]
                if (
                    isinstance(node, lir.Loop)
                    and node.mode is lir.LoopMode.PARALLEL
                    and longest > _MOST_PARALLEL_ITERATIONS
                ):
                    raise BuildError("parallel loop too long", f"`{node.var}` has {longest} iterations")
                self._record_loop(node.var, longest)
            elif isinstance(node, lir.AtPlace):
                self._record_loop(node.var, node.extent)
        for node in body.walk():
            for e in _expressions(node):
                self._interval(e)

    def _record_loop(self, var: str, longest: int) -> None:
        if longest > self._loops.get(var, 0):
            self._loops[var] = longest
            self._intervals.clear()

    def _interval(self, e: Expr) -> Interval:
        found = self._intervals.get(e)
        if found is None:
            found = self._new_interval(e)
            wraps = e.dtype.is_integer and (e.dtype is not INDEX or depends_on_data(e))
            if wraps and not holds_range(e.dtype, *found):
                found = integer_range(e.dtype)
            self._intervals[e] = found
        return found

    def _require_fit(self, e: Expr, what: str) -> Interval:
        """The interval of an expression that has to fit."""
        found = self._interval(e)
        if e.dtype is INDEX and not holds_range(INDEX, *found):
            raise BuildError(
                "index arithmetic leaves 64 bits",
                f"{what}, `{print_expr(e)}`, goes from {found[0]} to {found[1]} over all iterations of the loops. "
                f"Take smaller factors, or loops without an imperfect tile",
            )
        return found

    def _new_interval(self, e: Expr) -> Interval:
        if isinstance(e, Const) and e.type.is_integer:
            return int(e.value), int(e.value)
        if isinstance(e, Var) and not isinstance(e, ScalarVar) and e.dtype is INDEX:
            return 0, max(self._loops.get(e.name, 1) - 1, 0)
        if isinstance(e, Binary) and e.dtype.is_integer:
            return self._arithmetic(e)
        if isinstance(e, Unary) and e.op is UnOp.NEG and e.dtype is INDEX:
            lo, hi = self._interval(e.a)
            self._note_wrap(e)
            return -hi, -lo
        if isinstance(e, Select):
            self._interval(e.cond)
            (a, b), (c, d) = self._interval(e.then), self._interval(e.otherwise)
            return (min(a, c), max(b, d)) if e.dtype.is_integer else (0, 0)
        if isinstance(e, Cast) and e.dtype.is_integer and e.value.dtype.is_integer:
            found = self._interval(e.value)
            return found if holds_range(e.dtype, *found) else integer_range(e.dtype)
        # An address is that of a value where it is used.
        modular = isinstance(e, Load) or (isinstance(e, Cast) and e.dtype.is_integer)
        for child in e.children():
            if isinstance(child, Expr):
                self._interval(child) if modular else self._require_fit(child, "an operand")
        return integer_range(e.dtype) if e.dtype.is_integer else (0, 0)

    def _arithmetic(self, e: Binary) -> Interval:
        if e.op in _RING_OPS:
            (a, b), (c, d) = self._interval(e.a), self._interval(e.b)
            self._note_wrap(e)
            if e.op is BinOp.MUL:
                corners = [x * y for x, y in product((a, b), (c, d))]
                return min(corners), max(corners)
            return (a + c, b + d) if e.op is BinOp.ADD else (a - d, b - c)
        (a, b), (c, d) = self._require_fit(e.a, "an operand"), self._require_fit(e.b, "an operand")
        if e.op.is_of_bits or e.op.is_shift:
            found = range_of_bits(e.op, (a, b), (c, d))
            return found if holds_range(e.dtype, *found) else integer_range(e.dtype)
        match e.op:
            case BinOp.MIN:
                return min(a, c), min(b, d)
            case BinOp.MAX:
                return max(a, c), max(b, d)
            case BinOp.FLOORDIV if c > 0:
                return min(a // c, a // d), max(b // c, b // d)
            case BinOp.CEILDIV if c > 0:
                return min(-(-a // c), -(-a // d)), max(-(-b // c), -(-b // d))
            case BinOp.MOD if c > 0:
                return (a, b) if a >= 0 and b < c else (0, d - 1)
        most = max(abs(a), abs(b), abs(c), abs(d))
        return -most, most

    def _note_wrap(self, e: Expr) -> None:
        self.wraps = self.wraps or (e.dtype is INDEX and self._magnitude(e) > _NO_WRAP_LIMIT)

    def _magnitude(self, e: Expr) -> int:
        """A limit on every part of a sum, in whatever order its terms are added."""
        found = self._magnitudes.get(e)
        if found is None:
            if isinstance(e, Binary) and e.dtype is INDEX and e.op in _RING_OPS:
                a, b = self._magnitude(e.a), self._magnitude(e.b)
                found = a * b if e.op is BinOp.MUL else a + b
            elif isinstance(e, Unary) and e.dtype is INDEX:
                found = self._magnitude(e.a)
            else:
                found = max(map(abs, self._interval(e)))
            self._magnitudes[e] = found
        return found


def _expressions(node: Node) -> Iterator[Expr]:
    """The expressions of a statement itself."""
    if isinstance(node, lir.LStmt | lir.Operand):
        yield from (child for child in node.children() if isinstance(child, Expr))
