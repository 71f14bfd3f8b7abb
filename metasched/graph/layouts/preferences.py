"""Which dimensions of its operands a reduction wants innermost.

A sum of products of data and weights reads both in vectors best where the indices that both share are innermost in the
data, and those that the data lacks are innermost in the result: in a convolution the channels, whatever the number of
its spatial dimensions, in a product with a matrix its rows and columns. Where the data lacks none, as in a depthwise
convolution, it is what all three share.
"""

from __future__ import annotations

from metasched.graph.fusion.expressions import names_in, reads
from metasched.graph.fusion.stages import Stages, reduced_extents
from metasched.graph.layouts.orders import Order, innermost_order, moves_elements, permute_items
from metasched.ir.nodes import Reducer
from metasched.ir.source import Name, Read, Reduce, Stage
from metasched.support.data_classes import dataclass

# Dimensions of a tensor that are to be innermost, in their order.
Last = tuple[int, ...]


@dataclass(frozen=True)
class Preference:
    """What a stage that sums products of data and weights wants.

    Attributes:
        stage: the stage.
        data: what it reads of the data.
        weight: what it reads of the weights.
        data_last: dimensions of the data to be innermost.
        result_last: dimensions of its result to be innermost.
        iterations: how many products it sums.

    """

    stage: Stage
    data: Read
    weight: Read
    data_last: Last
    result_last: Last
    iterations: int

    def moves(self, stages: Stages) -> bool:
        """Whether an operand would have its elements in other places than now."""
        shapes = ((stages.types[name].shape, last) for name, last in self.wishes().items())
        return any(moves_elements(innermost_order(len(shape), last), shape) for shape, last in shapes)

    def wishes(self) -> dict[str, Last]:
        """What is to be innermost, by the buffer's name."""
        return {self.data.buffer: self.data_last, self.stage.buffer: self.result_last}


def weight_buffers(stages: Stages) -> frozenset[str]:
    """Buffers that depend on weights alone."""
    found = set(stages.consts)
    for stage in stages.stages:
        given = {read.buffer for read in reads(stage.value)}
        if given and given <= found:
            found.update(stage.targets)
    return frozenset(found)


def preferences(stages: Stages) -> tuple[Preference, ...]:
    """What the stages that sum products of data and weights want."""
    weights = weight_buffers(stages)
    found = (preference(stages, stage, weights) for stage in stages.stages)
    return tuple(one for one in found if one is not None)


def preference(stages: Stages, stage: Stage, weights: frozenset[str]) -> Preference | None:
    """What a stage wants; None where it does not sum products of data and weights."""
    if not isinstance(stage.value, Reduce) or stage.value.reducer is not Reducer.SUM or stage.buffer in weights:
        return None
    given = list(reads(stage.value))
    heavy, light = ([r for r in given if (r.buffer in weights) is among] for among in (True, False))
    if len({r.buffer for r in heavy}) != 1 or len({r.buffer for r in light}) != 1:
        return None
    data, weight = light[0], heavy[0]
    shared = frozenset().union(*map(names_in, weight.indices))
    summed = frozenset(reduced_extents(stage))
    if not shared & summed:
        return None
    inner = [dim for dim, e in enumerate(data.indices) if (own := names_in(e)) and own <= shared]
    contracted = [dim for dim in inner if names_in(data.indices[dim]) & summed]
    bare = {e.name for e in data.indices if isinstance(e, Name)}
    # What is read at a place that the weights do not know goes with the places: a phase of a transposed convolution.
    placed = frozenset().union(*(own for e in data.indices if not (own := names_in(e)) <= shared))
    outer = [dim for dim, axis in enumerate(stage.axes) if axis.name in shared - placed]
    own_results = [dim for dim in outer if stage.axes[dim].name not in bare]
    return Preference(
        stage, data, weight, tuple(contracted or inner), tuple(own_results or outer), stages.iterations(stage)
    )


def weight_order(stages: Stages, wish: Preference, data: Order, result: Order) -> Order | None:
    """The order of the weights that goes with those of the data and of the result; None where any will do.

    What is summed comes first, as the data has it, then what only the result has: a filter is rows, columns, channels,
    outputs. None also where the result does not have its own indices innermost.
    """
    axes = permute_items(wish.stage.axes, result)
    shape = permute_items(stages.types[wish.stage.buffer].shape, result)
    long = [axis.name for axis, extent in zip(axes, shape, strict=True) if extent > 1]
    own = {wish.stage.axes[dim].name for dim in wish.result_last}
    if not long or long[-1] not in own:
        return None
    ordered = list(enumerate(permute_items(wish.data.indices, data)))
    places = {name: place for place, e in reversed(ordered) for name in names_in(e)}
    outer = {axis.name: place for place, axis in enumerate(axes)}

    def key(dim: int) -> tuple[int, int, int]:
        names = names_in(wish.weight.indices[dim])
        place = min((places.get(name, len(ordered)) for name in names), default=-1)
        return place, max((outer.get(name, -1) for name in names), default=-1), dim

    return tuple(sorted(range(len(wish.weight.indices)), key=key))
