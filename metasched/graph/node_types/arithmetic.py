"""Arithmetic of two or more operands, which are broadcast."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import cast

Results = tuple[GraphValue, ...]

# ONNX divides integers towards zero; the language's `//` is towards minus infinity.
_TRUNCATING_DIVISION = "({0} // {1} if {0} % {1} == 0 or ({0} < 0) == ({1} < 0) else {0} // {1} + 1)"
# The remainder of a finite number by an infinite one, truncated or not.
_INFINITE = "abs({1}) == inf and abs({0}) < inf"
_REMAINDERS_BY_INFINITY = {True: "{0}", False: "({0} if {0} == 0.0 or ({0} > 0.0) == ({1} > 0.0) else {1})"}


def _require_same_types(site: NodeSite) -> tuple[GraphValue, ...]:
    operands = site.operands
    if len({operand.type.dtype for operand in operands}) > 1:
        raise Unsupported("its operands have different element types")
    return operands


@node_type("Add")
def add(site: NodeSite) -> Results:
    return (site.elementwise("{0} + {1}", *_require_same_types(site)),)


@node_type("Sub")
def sub(site: NodeSite) -> Results:
    return (site.elementwise("{0} - {1}", *_require_same_types(site)),)


@node_type("Mul")
def mul(site: NodeSite) -> Results:
    return (site.elementwise("{0} * {1}", *_require_same_types(site)),)


@node_type("Div")
def div(site: NodeSite) -> Results:
    x, y = _require_same_types(site)
    return (site.elementwise(quotient(x.type.dtype), x, y),)


def quotient(dtype: DType) -> str:
    """The expression of the quotient of `{0}` and `{1}` of a type: of integers, rounded towards zero."""
    if dtype.is_float:
        return "{0} / {1}"
    return "{0} // {1}" if dtype.is_unsigned else _TRUNCATING_DIVISION


@node_type("Mod")
def mod(site: NodeSite) -> Results:
    x, y = _require_same_types(site)
    truncated = site.flag("fmod")
    dtype = x.type.dtype
    if dtype.is_float:
        # In f64 the product of a quotient of 29 bits and an f32 is exact.
        a, b = (cast(f"{{{n}}}", dtype, DType.F64) for n in range(2))
        whole = f"(floor({a} / {b}) if {a} / {b} >= 0.0 else ceil({a} / {b}))" if truncated else f"floor({a} / {b})"
        rest = cast(f"({a} - {whole} * {b})", DType.F64, dtype)
        return (site.elementwise(f"({_REMAINDERS_BY_INFINITY[truncated]} if {_INFINITE} else {rest})", x, y),)
    if truncated and not dtype.is_unsigned:
        return (site.elementwise(f"{{0}} - {_TRUNCATING_DIVISION} * {{1}}", x, y),)
    return (site.elementwise("{0} % {1}", x, y),)


@node_type("Pow")
def power(site: NodeSite) -> Results:
    x, y = site.operands
    dtype = x.type.dtype
    if y.constant is not None and y.type.size == 1 and (dtype.is_float or dtype.bits == 64 or dtype is DType.I32):
        exponent = float(y.constant.reshape(-1)[0])
        if exponent in (1.0, 2.0, 3.0) and y.rank <= x.rank:
            made = site.elementwise(" * ".join(["{0}"] * int(exponent)), x)
            return (made,)
    if dtype.is_float:
        # An exponent that is small and exact as an f32 loses nothing.
        return (site.elementwise("pow({0}, {1})", x, _cast_to(site, y, dtype)),)
    wide = site.elementwise("pow({0}, {1})", _cast_to(site, x, DType.F64), _cast_to(site, y, DType.F64))
    return (site.elementwise(f"{dtype}({{0}})", wide, dtype=dtype),)


def _cast_to(site: NodeSite, x: GraphValue, dtype: DType) -> GraphValue:
    return site.cast(x, dtype)


@node_type("Sum")
def sum_of_all(site: NodeSite) -> Results:
    operands = _require_same_types(site)
    return (site.elementwise(" + ".join(f"{{{n}}}" for n in range(len(operands))), *operands),)


@node_type("Mean")
def mean_of_all(site: NodeSite) -> Results:
    operands = _require_same_types(site)
    total = " + ".join(f"{{{n}}}" for n in range(len(operands)))
    return (site.elementwise(f"({total}) / {len(operands)}.0", *operands),)


@node_type("Max", "Min")
def extremum(site: NodeSite) -> Results:
    operands = _require_same_types(site)
    function, text = site.op.lower(), "{0}"
    for n in range(1, len(operands)):
        text = f"{function}({text}, {{{n}}})"
    return (site.elementwise(text, *operands),)


@node_type("Clip")
def clip(site: NodeSite) -> Results:
    """min(max(x, low), high): what is high wins where it is below low."""
    operands, text = [site.operand(0)], "{0}"
    for n, function in ((1, "max"), (2, "min")):
        bound = site.optional(n)
        if bound is not None:
            if bound.type.size != 1:
                raise Unsupported(f"a bound is {bound.type}, and not a scalar")
            operands.append(site.view(bound, ()))
            text = f"{function}({text}, {{{len(operands) - 1}}})"
    return (site.elementwise(text, *operands),) if len(operands) > 1 else (operands[0],)
