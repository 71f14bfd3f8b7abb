"""Expressions: values of LIR expressions in a scope, in scalars where lanes agree and vectors where they do not."""

from __future__ import annotations

from metasched.compiler.cpu.emit.accesses.memory import Memory
from metasched.compiler.cpu.emit.conversions.saturation import rounded_argument, without_clamps
from metasched.compiler.cpu.emit.types import SSAValue, constant, lane_numbers
from metasched.dtypes import INDEX, DType
from metasched.errors import BuildError
from metasched.ir.integers.linear import Linear
from metasched.ir.nodes import Binary, BinOp, Call, Cast, Const, Expr, Load, ScalarVar, Select, Unary, UnOp, Var

_DIVISIONS = (BinOp.FLOORDIV, BinOp.MOD)
_SHORT_LIMIT = 2**31  # what is below fits in 32 bits, signed or not


class Expressions(Memory):
    """Emits expressions.

    A select evaluates both sides and picks; a load on a side that is not taken reads nothing out of bounds (it is
    masked, or redirected), so the result is as if it were lazy.
    """

    def value(self, e: Expr) -> SSAValue:
        """The value of an expression in the current scope."""
        if isinstance(e, Const):
            return constant(e.value, e.type)
        if isinstance(e, Load):
            return self.load(e.buffer, e.indices[0])
        if e.dtype is INDEX and self._is_index(e):
            return self.index(self.scope.indices.form(e))
        if isinstance(e, Var):
            return self.scope.variables[e.name][0]
        if isinstance(e, Binary):
            return self._binary_value(e)
        if isinstance(e, Unary):
            a = self.value(e.a)
            return self.arith.negate(a) if e.op is UnOp.NEG else self.arith.invert(a)
        if isinstance(e, Call):
            return self.arith.call(e.func, tuple(self.value(arg) for arg in e.args))
        if isinstance(e, Cast):
            return self._cast(e)
        if isinstance(e, Select):
            return self._select(e)
        raise BuildError(f"expression {type(e).__name__}", "the compiler does not know this expression")

    def _cast(self, e: Cast) -> SSAValue:
        value = without_clamps(e)
        rounded = rounded_argument(value, e.type)
        if rounded is not None:
            return self.arith.round_to_short(self.value(rounded), e.type)
        return self.arith.cast(self.value(value), e.type)

    def _is_index(self, e: Expr) -> bool:
        """Whether an i64 expression is index arithmetic: over loop variables only, not over scalar arguments."""
        if isinstance(e, Binary):
            return e.op is not BinOp.DIV and self._is_index(e.a) and self._is_index(e.b)
        if isinstance(e, Unary):
            return self._is_index(e.a)
        return isinstance(e, Var | Const) and not isinstance(e, ScalarVar)

    def atom(self, atom: Expr) -> SSAValue:
        """The value of a non-linear part of an index."""
        if isinstance(atom, Var):
            lane = self.scope.lane
            if lane is not None and atom.name == lane.name:
                return lane_numbers(INDEX, lane.width)
            return self.scope.variables[atom.name][0]
        if isinstance(atom, Binary) and atom.dtype is INDEX and not atom.op.is_comparison:
            a, b = self._operand(atom.a), self._operand(atom.b)
            if atom.op in _DIVISIONS and isinstance(atom.b, Const) and atom.b.value > 0:
                divisor = int(atom.b.value)
                low, high = self.scope.indices.range(self.scope.indices.form(atom.a))
                if low is not None and low >= 0:
                    short = high is not None and max(high, divisor) < _SHORT_LIMIT
                    divide = self.arith.short_divide if short else self.arith.nonnegative_divide
                    return self._hide_remainder(atom.op, divide(atom.op, a, divisor))
            return self.arith.binary(atom.op, a, b)
        return self.value(atom)

    def _hide_remainder(self, op: BinOp, value: SSAValue) -> SSAValue:
        """A quotient or remainder of a loop's counter.

        LLVM takes a remainder for the counter minus a multiple of the quotient. To a counter of an outer loop it then
        adds the constants of addresses in inner ones, and no longer finds them: each address of an unrolled body gets a
        register of its own, which is one on the stack. So it does not see what a remainder there is.
        """
        return self.arith.opaque(value) if op is BinOp.MOD and not value.width and self.text.is_outside else value

    def short_atom(self, atom: Expr) -> SSAValue:
        """The value of a non-linear part of an index that 32 bits hold."""
        if isinstance(atom, Cast) and atom.value.dtype.is_integer and atom.value.dtype.bits <= DType.I32.bits:
            return self.arith.cast(self.value(atom.value), DType.I32)
        return self.arith.cast(self.atom(atom), DType.I32)

    def _operand(self, e: Expr) -> SSAValue:
        return self.index(self.scope.indices.form(e))

    # --- conditions ---

    def _binary_value(self, e: Binary) -> SSAValue:
        if e.op.is_logical:
            return self._short_circuit(e)
        if e.op.is_comparison and e.a.dtype is INDEX and self._is_index(e.a) and self._is_index(e.b):
            return self._index_comparison(e)
        if e.op in (BinOp.EQ, BinOp.NE) and e.a.dtype.is_float and e.a == e.b:
            is_nan = self.arith.is_nan(self.value(e.a))
            return is_nan if e.op is BinOp.NE else self.arith.invert(is_nan)
        return self.arith.binary(e.op, self.value(e.a), self.value(e.b))

    def _short_circuit(self, e: Binary) -> SSAValue:
        """The second operand runs under the first: a bounds check may stand before the read that it guards."""
        a = self.value(e.a)
        decides = "false" if e.op is BinOp.AND else "true"
        if a.text == decides:
            return a
        if a.text in ("true", "false"):
            return self.value(e.b)
        with self.scope.push_guard(a, e.a, negated=e.op is BinOp.OR):
            b = self.value(e.b)
        if b.text in ("true", "false"):
            return b if b.text == decides else a
        return self.arith.binary(e.op, a, b)

    def _index_comparison(self, e: Binary) -> SSAValue:
        """`a < b` and its like on indices, decided here where ranges decide it.

        Both fit in 64 bits. Their difference is taken only where it is known to fit as well, and so do its parts; that
        it is zero shows modulo 2**64.
        """
        forms = self.scope.indices
        op, a, b = e.op, e.a, e.b
        if op in (BinOp.GT, BinOp.GE):
            op, a, b = (BinOp.LT if op is BinOp.GT else BinOp.LE), b, a
        gap = forms.form(Binary(BinOp.SUB, b, a))
        if op in (BinOp.EQ, BinOp.NE):
            return self._equality(op, gap)
        if op is BinOp.LT:
            gap = Linear(gap.const - 1, gap.terms)
        lo, hi = forms.range(gap)
        if lo is not None and lo >= 0:
            return constant(True, DType.BOOL)
        if hi is not None and hi < 0:
            return constant(False, DType.BOOL)
        if lo is None or hi is None:
            return self.arith.binary(op, self._operand(a), self._operand(b))
        return self._is_nonnegative(gap)

    def _equality(self, op: BinOp, gap: Linear) -> SSAValue:
        lo, hi = self.scope.indices.range(gap)
        if (lo is not None and lo > 0) or (hi is not None and hi < 0):
            return constant(op is BinOp.NE, DType.BOOL)
        if lo == hi == 0:
            return constant(op is BinOp.EQ, DType.BOOL)
        value = self.index(gap)
        return self.arith.binary(op, value, constant(0, INDEX))

    def _is_nonnegative(self, gap: Linear) -> SSAValue:
        """Whether an index is at least zero, for every lane.

        Where it falls or rises by one a lane, lanes are counted in 32 bits: half the vectors of 64.
        """
        shared, step, varying = self.split_lane(gap)
        lane = self.scope.lane
        if lane is None or varying or abs(step) != 1:
            return self.arith.binary(BinOp.GE, self.index(gap), constant(0, INDEX))
        limit = Linear(shared.const + 1, shared.terms) if step == -1 else Linear(-shared.const, _negate_terms(shared))
        return self.lanes_compare(self.index(limit), below=step == -1)

    def lanes_compare(self, limit: SSAValue, *, below: bool) -> SSAValue:
        """The mask of the lanes whose number is below `limit` (or not below it)."""
        lane = self.scope.lane
        assert lane is not None
        width = lane.width
        if limit.text[0] != "%":
            # LLVM 22 turns a masked load of two registers into a plain one where it finds the mask of one of them to be
            # nothing but zeros, or stops at an assertion.
            limit = self.arith.opaque(limit)
        clamped = self.arith.binary(BinOp.MIN, limit, constant(width, INDEX))
        clamped = self.arith.binary(BinOp.MAX, constant(0, INDEX), clamped)
        count = self.arith.widen(self.arith.cast(clamped, DType.I32), width)
        op = BinOp.LT if below else BinOp.GE
        return self.arith.binary(op, lane_numbers(DType.I32, width), count)

    def _select(self, e: Select) -> SSAValue:
        cond = self.value(e.cond)
        if cond.text in ("true", "false"):
            return self.value(e.then if cond.text == "true" else e.otherwise)
        with self.scope.push_guard(cond, e.cond):
            then = self.value(e.then)
        with self.scope.push_guard(cond, e.cond, negated=True):
            otherwise = self.value(e.otherwise)
        return self.arith.select(cond, then, otherwise)


def _negate_terms(form: Linear) -> tuple[tuple[Expr, int], ...]:
    return tuple((atom, -c) for atom, c in form.terms)
