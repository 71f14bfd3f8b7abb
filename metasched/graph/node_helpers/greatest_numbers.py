"""The greatest whole number that a value can be, by the programs that compute it: `min(n, 64)` is 64 at most."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.dtypes import DType
from metasched.graph.builder import GraphBuilder
from metasched.graph.fusion.expressions import dtype_of
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.ir import Compute, ShapeView
from metasched.ir.source import Apply, IfElse, IntLit, Read, SourceExpr

# Nodes on the way from a value to what bounds it.
_DEEPEST = 16
# Whole numbers that an i64 has as they are.
_NARROWER = (DType.I32, DType.I64)


def greatest_number(builder: GraphBuilder, name: str, deepest: int = _DEEPEST) -> int | None:
    """The most that an element of a value of whole numbers can be; None where nothing says it."""
    if (known := builder.constant_of(name)) is not None:
        return int(known.max()) if known.size and known.dtype.kind in "iu" else None
    maker = builder.maker(name)
    if deepest == 0 or maker is None:
        return None
    if isinstance(maker, ShapeView):
        return greatest_number(builder, maker.input, deepest - 1)
    form = stages_of(maker.program) if isinstance(maker, Compute) else None
    if form is None or len(form.stages) != 1 or len(maker.outputs) != 1:
        return None
    given = dict(zip(form.inputs, maker.inputs, strict=True))
    return _Greatest(builder, form, given, deepest - 1).upper_bound(form.stages[0].value)


class _Greatest:
    def __init__(self, builder: GraphBuilder, form: Stages, given: Mapping[str, str], deepest: int) -> None:
        self._builder = builder
        self._form = form
        self._given = given
        self._deepest = deepest

    def upper_bound(self, value: SourceExpr) -> int | None:
        """The most that an expression can be."""
        match value:
            case IntLit(value=number):
                return number
            case Read(buffer=buffer):
                return greatest_number(self._builder, self._given[buffer], self._deepest)
            case Apply(func="min", args=args):
                found = [most for most in map(self.upper_bound, args) if most is not None]
                return min(found, default=None)
            case Apply(func="max", args=args):
                return self._largest(*args)
            case IfElse(then=then, otherwise=otherwise):
                return self._largest(then, otherwise)
            case Apply(func="i64", args=(inner,)) if dtype_of(inner, self._form.dtypes) in _NARROWER:
                return self.upper_bound(inner)
        return None

    def _largest(self, *args: SourceExpr) -> int | None:
        found = [most for most in map(self.upper_bound, args) if most is not None]
        return max(found) if len(found) == len(args) else None
