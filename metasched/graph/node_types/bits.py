"""Functions of the bits of integers."""

from __future__ import annotations

from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite

Results = tuple[GraphValue, ...]


def _combine_integers(site: NodeSite, expression: str) -> Results:
    x, y = site.operands
    if x.type.dtype is not y.type.dtype or not x.type.dtype.is_integer:
        raise Unsupported(f"it is of two integers of one type, and its inputs are {x.type} and {y.type}")
    return (site.elementwise(expression, x, y),)


@node_type("BitwiseAnd")
def bitwise_and(site: NodeSite) -> Results:
    return _combine_integers(site, "{0} & {1}")


@node_type("BitwiseOr")
def bitwise_or(site: NodeSite) -> Results:
    return _combine_integers(site, "{0} | {1}")


@node_type("BitwiseXor")
def bitwise_xor(site: NodeSite) -> Results:
    return _combine_integers(site, "{0} ^ {1}")


@node_type("BitwiseNot")
def bitwise_not(site: NodeSite) -> Results:
    x = site.operand(0)
    if not x.type.dtype.is_integer:
        raise Unsupported(f"it is of integers, and its input is {x.type}")
    return (site.elementwise("~{0}", x),)


@node_type("BitShift")
def bit_shift(site: NodeSite) -> Results:
    """A shift of bits. Where all are shifted out, nothing is left but the sign of a number that is shifted to the
    right.
    """
    left = site.require_one_of("direction", "", ("LEFT", "RIGHT")) == "LEFT"
    return _combine_integers(site, "{0} << {1}" if left else "{0} >> {1}")
