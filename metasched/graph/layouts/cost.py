"""What a region's order costs against the one that it has, in products at full speed.

A guess for each program would say it better, and takes longer than a whole network may. So it is estimated from what
decides how well vectors are used. Results are computed in vectors along their innermost dimension, which wastes lanes
where it is short or no multiple of them; operands are read in vectors where they have the same indices innermost.
What windows cost is rounded from the roofline's estimates of guesses for all convolutions of ResNet-50 and
MobileNet-v2 in both orders, on AVX-512; the other two constants are judgement.
"""

from __future__ import annotations

from collections.abc import Mapping

from metasched.graph.fusion.expressions import names_in
from metasched.graph.fusion.indices import IndexSum, linear_form
from metasched.graph.fusion.stages import Stages
from metasched.graph.layouts.orders import Order, identity_order, permute_items
from metasched.graph.layouts.preferences import Preference, weight_order
from metasched.ir.nodes import BinOp
from metasched.ir.source import IntLit, Name, Operation, Read, SourceExpr
from metasched.target import Target

# How many times as long a sum takes whose data is read at other distances than one by neighbouring lanes.
_STRIDED_FACTOR = 2.0
# How many times as long it takes where each half of a vector reads one element: of channels in groups of half of it.
_TWO_GROUPS = 1.3
# How many times as long it takes where lanes are neighbours in the data, and windows begin anywhere in a vector.
_WINDOWS = 1.15
# Products that take as long as copying an element into another order.
_COPY = 32


def cost(stages: Stages, wish: Preference, orders: Mapping[str, Order], target: Target) -> float:
    """The cost of a reduction whose tensors have these orders, by their names."""
    data, result = (
        orders.get(name, identity_order(stages.types[name].rank)) for name in (wish.data.buffer, wish.stage.buffer)
    )
    type_ = stages.types[wish.stage.buffer]
    places = [dim for dim in result if type_.shape[dim] > 1]
    if not places:
        return float(wish.iterations)
    lanes = max(target.vector_bits // (8 * type_.dtype.bytes), 1)
    extent, axis = type_.shape[places[-1]], wish.stage.axes[places[-1]].name
    used = extent / (-(-extent // lanes) * lanes)
    weights = weight_order(stages, wish, data, result) or identity_order(len(wish.weight.indices))
    operands = ((wish.data, data), (wish.weight, weights))
    factor = max(_factor(stages, wish, read, order, axis, lanes) for read, order in operands)
    return wish.iterations * factor / used


def _factor(stages: Stages, wish: Preference, read: Read, order: Order, axis: str, lanes: int) -> float:
    """How many times as long a sum takes for how neighbours along an index lie in one of its operands."""
    extents = stages.extents(wish.stage)
    indices = [linear_form(index, extents) for index in permute_items(read.indices, order)]
    if any(index is None for index in indices):
        return _STRIDED_FACTOR
    divided = max((_group_factor(index, axis, lanes) for index in indices if index is not None), default=1.0)
    if divided > 1.0:
        return divided
    steps = [dict(index.terms).get(Name(axis), 0) for index in indices if index is not None]
    if not any(steps):
        return 1.0
    if steps[-1] != 1 or any(steps[:-1]):
        # Weights are packed ahead in whatever order: only data has to be read where it is.
        return _STRIDED_FACTOR if read is wish.data else 1.0
    last = indices[-1]
    return _WINDOWS if read is wish.data and last is not None and len(last.terms) > 1 else 1.0


def _group_factor(index: IndexSum, axis: str, lanes: int) -> float:
    """How many times as long a sum takes for quotients and remainders of what goes along another index.

    A strided gather has them, and a convolution of groups of channels, where a vector of one group reads one element.
    """
    atoms = (atom for atom, _ in index.terms if not isinstance(atom, Name) and axis in names_in(atom))
    return max((_atom_factor(atom, axis, lanes) for atom in atoms), default=1.0)


def _atom_factor(atom: SourceExpr, axis: str, lanes: int) -> float:
    match atom:
        case Operation(op=BinOp.FLOORDIV, a=Name(name=name), b=IntLit(value=size)) if name == axis:
            return 1.0 if size % lanes == 0 else _TWO_GROUPS if 2 * size == lanes else _STRIDED_FACTOR
    return _STRIDED_FACTOR


def copy_cost(elements: int) -> float:
    """The cost of copying so many elements into another order."""
    return float(_COPY * elements)
