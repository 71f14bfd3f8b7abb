"""Stages whose tensors have their dimensions in another order: the same elements, the same results.

An order lists the dimensions of a tensor as they were, from the outermost in memory to the innermost: with (0, 2, 3, 1)
`A[n, c, h, w]` becomes `A[n, h, w, c]`. The loops of the stage that writes a tensor take the new order, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from metasched.graph.fusion.expressions import map_reads, names_in, reads
from metasched.graph.fusion.stages import Stages
from metasched.ir.source import Axis, Read, Reduce, Stage

Order = tuple[int, ...]
T = TypeVar("T")


def identity_order(rank: int) -> Order:
    """The order of a tensor that stays as it is."""
    return tuple(range(rank))


def innermost_order(rank: int, last: Collection[int]) -> Order:
    """The order with some dimensions moved to the innermost places, in the order that they have among themselves."""
    return (*(dim for dim in range(rank) if dim not in last), *(dim for dim in range(rank) if dim in last))


def moves_elements(order: Order, shape: Sequence[int]) -> bool:
    """Whether elements have other places in memory: dimensions of one element may be anywhere."""
    long = [dim for dim in order if shape[dim] > 1]
    return long != sorted(long)


def permute_items(items: Sequence[T], order: Order) -> tuple[T, ...]:
    """Items of dimensions, such as extents, in another order."""
    return tuple(items[dim] for dim in order)


def reorder_tensors(stages: Stages, orders: Mapping[str, Order]) -> Stages:
    """Stages with some tensors, arguments or intermediate ones, in another order of their dimensions.

    Args:
        stages: of a program that is not scheduled.
        orders: by the tensor's name, its dimensions from the outermost to the innermost. Both results of an
            arg-reduction have the same order.

    Sums run over their indices in the order in which the first of the tensors that they read has them in memory;
    positions of arg-reductions are counted in the order written.

    Raises ValueError where an order is no permutation, or the results of one stage have different orders.
    """
    for name, order in orders.items():
        if sorted(order) != list(range(stages.types[name].rank)):
            raise ValueError(f"{order} is no order of the dimensions of `{name}`: {stages.types[name]}")
    types = {
        name: replace(type_, shape=permute_items(type_.shape, orders[name])) if name in orders else type_
        for name, type_ in stages.types.items()
    }
    return replace(stages, types=types, stages=tuple(_reorder_stage(stage, orders) for stage in stages.stages))


def _reorder_stage(stage: Stage, orders: Mapping[str, Order]) -> Stage:
    if len({orders.get(target) for target in stage.targets}) > 1:
        raise ValueError(f"{' and '.join(stage.targets)} are written by one stage, and have different orders")
    touched = {*stage.targets, *(read.buffer for read in reads(stage.value))}
    if not touched & orders.keys():
        return stage

    def change(read: Read) -> Read:
        return (
            replace(read, indices=permute_items(read.indices, orders[read.buffer])) if read.buffer in orders else read
        )

    value = map_reads(stage.value, change)
    if isinstance(value, Reduce) and not value.reducer.is_arg:
        value = replace(value, axes=_memory_ordered_axes(value))
    axes = permute_items(stage.axes, orders[stage.buffer]) if stage.buffer in orders else stage.axes
    return replace(stage, axes=axes, value=value)


def _memory_ordered_axes(value: Reduce) -> tuple[Axis, ...]:
    """The indices of a reduction in the order of the dimensions that the first tensor read has them in."""
    read = next(iter(reads(value.operand)), None)
    if read is None:
        return value.axes
    places: dict[str, int] = {}
    for dim, index in enumerate(read.indices):
        for name in names_in(index):
            places.setdefault(name, dim)
    return tuple(sorted(value.axes, key=lambda axis: places.get(axis.name, len(read.indices))))
