"""Index arithmetic during emission: linear forms, their ranges, and what unrolled loops make of them.

Unrolled loops and vector strips are substitutions: `i := 3`, `j := 16 * strip + lane`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import gcd

from metasched.dtypes import INDEX
from metasched.ir.integers.bit_ranges import range_of_bits
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.data_ranges import data_range
from metasched.ir.integers.linear import Linear, combine, form_of_sum, product, to_expr
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Load, Var

Range = tuple[int | None, int | None]  # inclusive; None is unbounded
UNKNOWN: Range = (None, None)

# What is known to stay this far from what 64 bits hold does not wrap, and neither does a difference of two of it.
_NO_WRAP_LIMIT = 2**61


class Indices:
    """Linear forms of index expressions under the substitutions and ranges in force."""

    def __init__(self) -> None:
        self._values: dict[str, Linear] = {}
        self._ranges: dict[str, Range] = {}
        # A number for each meaning that a variable has at present. Forms are remembered by expression, and for each by
        # the numbers of its variables, so that no cache is ever stale and unrolled copies share what they can.
        self._meanings: dict[str, int] = {}
        self._numbers: dict[Linear | Range, int] = {}
        self._forms: dict[Expr, tuple[tuple[str, ...], dict[tuple[int | None, ...], Linear]]] = {}
        self._symbolic: dict[Expr, Linear] = {}
        self._names: dict[Expr, tuple[str, ...]] = {}
        self._reads: dict[Expr, bool] = {}

    def _set_meaning(self, var: str, what: Linear | Range | None) -> None:
        if what is None:
            self._meanings.pop(var, None)
        else:
            self._meanings[var] = self._numbers.setdefault(what, len(self._numbers))

    @contextmanager
    def bind_value(self, var: str, value: Linear) -> Iterator[None]:
        """Have `var` stand for `value` inside."""
        outer = self._values.get(var)
        self._values[var] = value
        self._set_meaning(var, value)
        try:
            yield
        finally:
            self._set_meaning(var, outer)
            if outer is None:
                del self._values[var]
            else:
                self._values[var] = outer

    @contextmanager
    def bind_range(self, var: str, values: Range) -> Iterator[None]:
        """Have a variable take values of this inclusive range inside."""
        outer = self._ranges.get(var)
        self._ranges[var] = values
        self._set_meaning(var, values)
        try:
            yield
        finally:
            self._set_meaning(var, outer)
            if outer is None:
                del self._ranges[var]
            else:
                self._ranges[var] = outer

    def names(self, e: Expr) -> tuple[str, ...]:
        """The variables of an expression."""
        found = self._names.get(e)
        if found is None:
            names = [e.name] if isinstance(e, Var) else []
            for child in e.children():
                if isinstance(child, Expr):
                    names.extend(self.names(child))
            found = self._names[e] = tuple(dict.fromkeys(names))
        return found

    def reads(self, e: Expr) -> bool:
        """Whether an expression reads memory."""
        found = self._reads.get(e)
        if found is None:
            found = self._reads[e] = any(isinstance(node, Load) for node in e.walk())
        return found

    def _may_wrap(self, e: Expr, form: Linear) -> bool:
        """Whether the value of an expression over data may be another than that of its form, modulo 2**64."""
        return depends_on_data(e) and None in self.range(form)

    def form(self, e: Expr) -> Linear:
        """The linear form of `e`, substitutions made and divisions resolved where ranges allow."""
        known = self._forms.get(e)
        if known is None:
            known = self._forms[e] = self.names(e), {}
        names, forms = known
        meanings = tuple(map(self._meanings.get, names))
        form = forms.get(meanings)
        if form is None:
            form = forms[meanings] = self._resolve_form(self._symbolic_form(e))
        return form

    def _symbolic_form(self, e: Expr) -> Linear:
        form = self._symbolic.get(e)
        if form is None:
            form = self._symbolic[e] = self._split_sum(e)
        return form

    def _split_sum(self, e: Expr) -> Linear:
        form = form_of_sum(e, self._symbolic_form)
        return Linear.of_atom(e) if form is None else form

    def _resolve_form(self, form: Linear) -> Linear:
        parts: list[tuple[int, Linear]] = []
        for atom, c in form.terms:
            if isinstance(atom, Var):
                value = self._values.get(atom.name)
                parts.append((c, Linear.of_atom(atom) if value is None else value))
            else:
                parts.append((c, self._resolve_atom(atom)))
        return combine((1, Linear(form.const)), *parts)

    def _resolve_atom(self, atom: Expr) -> Linear:
        if not isinstance(atom, Binary) or atom.op.is_comparison or atom.op.is_logical:
            return Linear.of_atom(self._substitute_atom(atom))
        a, b = self.form(atom.a), self.form(atom.b)
        if atom.op is not BinOp.MUL and (self._may_wrap(atom.a, a) or self._may_wrap(atom.b, b)):
            return Linear.of_atom(Binary(atom.op, to_expr(a), to_expr(b)))
        if atom.op in _DIVISIONS and not b.terms and b.const > 0:
            return self._divide(atom.op, a, b.const)
        if atom.op in (BinOp.MIN, BinOp.MAX):
            return self._extremum(atom.op, a, b)
        multiple = product(a, b) if atom.op is BinOp.MUL else None
        if multiple is not None:
            return multiple
        return Linear.of_atom(Binary(atom.op, to_expr(a), to_expr(b)))

    def _substitute_atom(self, e: Expr) -> Expr:
        """An atom that is not arithmetic (a load, a cast, a select), its variables substituted."""
        if isinstance(e, Load):
            return Load(e.buffer, tuple(to_expr(self.form(i)) for i in e.indices), e.type)
        return e.map(lambda child: to_expr(self.form(child)) if child.dtype is INDEX else self._substitute_atom(child))

    def _divide(self, op: BinOp, dividend: Linear, d: int) -> Linear:
        """A quotient or remainder by `d`, multiples of `d` taken out where what is left is known to fit in 64 bits."""
        a, whole = dividend, op
        if op is BinOp.CEILDIV:
            a, op = Linear(a.const + d - 1, a.terms), BinOp.FLOORDIV
        quotient = Linear(a.const // d, tuple((t, c // d) for t, c in a.terms if c % d == 0))
        rest = Linear(a.const % d, tuple((t, c) for t, c in a.terms if c % d))
        lo, hi = self.range(rest)
        if (lo is None or hi is None) and not rest.is_atom:
            # The dividend was checked to fit; what is left of it may still leave 64 bits, by less than `d`.
            return Linear.of_atom(Binary(whole, to_expr(dividend), Const(d)))
        inside = lo is not None and hi is not None and lo >= 0 and hi < d
        if op is BinOp.MOD and inside:
            return rest
        if inside:
            return quotient
        unit, large, small = self._split_divisor(rest, d)
        divided = Linear.of_atom(Binary(op, to_expr(large), Const(d // unit)))
        if op is BinOp.MOD:
            return combine((unit, divided), (1, small))
        return combine((1, quotient), (1, divided))

    def _split_divisor(self, rest: Linear, d: int) -> tuple[int, Linear, Linear]:
        """A form as `unit * large + small`, with the largest divisor `unit` of `d` that `small` is known to stay below.

        So `(32*i + lane) // 128` is `i // 4`, the same in 32 lanes, and `(32*i + lane) % 128` are neighbours in them.
        """
        for unit in sorted({gcd(c, d) for _, c in rest.terms} - {1}, reverse=True):
            small = Linear(rest.const % unit, tuple((t, c) for t, c in rest.terms if c % unit))
            lo, hi = self.range(small)
            if lo is not None and hi is not None and lo >= 0 and hi < unit:
                large = Linear(rest.const // unit, tuple((t, c // unit) for t, c in rest.terms if c % unit == 0))
                return unit, large, small
        return 1, rest, Linear(0)

    def _extremum(self, op: BinOp, a: Linear, b: Linear) -> Linear:
        lo, hi = self.range(combine((1, a), (-1, b)))
        if hi is not None and hi <= 0:
            return a if op is BinOp.MIN else b
        if lo is not None and lo >= 0:
            return b if op is BinOp.MIN else a
        return Linear.of_atom(Binary(op, to_expr(a), to_expr(b)))

    def range(self, form: Linear) -> Range:
        """Inclusive bounds of a resolved linear form; of one that may wrap, nothing is known."""
        lo: int | None = form.const
        hi: int | None = form.const
        for atom, c in form.terms:
            a, b = self._atom_range(atom)
            if c < 0:
                a, b = b, a
            lo = None if lo is None or a is None else lo + c * a
            hi = None if hi is None or b is None else hi + c * b
        if lo is None or hi is None:
            # More than an atom may wrap where it is unbounded, and then has no bound on the other side either.
            return (lo, hi) if form.is_atom else UNKNOWN
        return (lo, hi) if max(-lo, hi) <= _NO_WRAP_LIMIT else UNKNOWN

    def _atom_range(self, atom: Expr) -> Range:
        if isinstance(atom, Var):
            return self._ranges.get(atom.name, UNKNOWN)
        if not isinstance(atom, Binary):
            return _data_bounds(atom)
        a = self.range(self._symbolic_form(atom.a))
        b = self.range(self._symbolic_form(atom.b))
        if atom.op is BinOp.MIN:
            return _pick_bound(min, a[0], b[0], strict=True), _pick_bound(min, a[1], b[1], strict=False)
        if atom.op is BinOp.MAX:
            return _pick_bound(max, a[0], b[0], strict=False), _pick_bound(max, a[1], b[1], strict=True)
        if atom.op.is_of_bits or atom.op.is_shift:
            return _bit_operation_bounds(atom, a, b)
        divisor = b[0]
        if divisor is None or divisor < 1 or b[1] != divisor:
            return UNKNOWN
        if atom.op is BinOp.MOD:
            return 0, divisor - 1
        if atom.op is BinOp.FLOORDIV:
            return tuple(None if x is None else x // divisor for x in a)  # type: ignore[return-value]
        return UNKNOWN


def _data_bounds(atom: Expr) -> Range:
    """Bounds of what is no arithmetic over loops: what data may say, where that is little beside 64 bits."""
    lo, hi = data_range(atom)
    return (lo, hi) if max(-lo, hi) <= _NO_WRAP_LIMIT else UNKNOWN


def _bit_operation_bounds(atom: Binary, a: Range, b: Range) -> Range:
    (lo, hi), (fewest, most) = a, b
    if lo is None or hi is None or fewest is None or most is None:
        return UNKNOWN
    return range_of_bits(atom.op, (lo, hi), (fewest, most))


_DIVISIONS = frozenset({BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV})


def _pick_bound(pick: Callable[[int, int], int], a: int | None, b: int | None, *, strict: bool) -> int | None:
    """The smaller or the larger bound; an unknown one makes the result unknown when `strict`, and is passed over
    otherwise."""
    if a is None or b is None:
        return None if strict else (b if a is None else a)
    return pick(a, b)
