"""Rows of columns, which models of tables read."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.site import NodeSite


def rows_of(site: NodeSite, x: GraphValue) -> GraphValue:
    """A tensor as (rows, columns): one of one dimension is a row. Raises Unsupported for any other."""
    if x.rank not in (1, 2):
        raise Unsupported(f"its input is {x.type}, and no rows of columns")
    return site.view(x, (1, *x.shape)) if x.rank == 1 else x


def float_rows(site: NodeSite) -> GraphValue:
    """The first input as (rows, columns), of floats: of f32 where it has whole numbers."""
    x = rows_of(site, site.operand(0))
    return x if x.type.dtype.is_float else site.cast(x, DType.F32)
