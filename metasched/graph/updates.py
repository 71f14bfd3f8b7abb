"""Programs that replace a stretch of a tensor: what a decoder does to its cache of keys, whatever the node was called.

Such a program has one stage. Along one axis, from a position on that another input holds, elements are those of an
update; elsewhere they are what they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from metasched.dtypes import INDEX
from metasched.ir import query
from metasched.ir.affine import ZERO, NotAffine, as_int, coefficient, free_vars, substitute
from metasched.ir.nodes import Binary, BinOp, Buffer, Cast, Expr, Func, Load, Select, Var

_POSITION = "<position>"
# How many the limit of `axis - position` moves up, for comparisons with zero; and which limits they are.
_LOWEST = {BinOp.GE: 0, BinOp.GT: 1, BinOp.EQ: 0}
_BEYOND = {BinOp.LT: 0, BinOp.LE: 1, BinOp.EQ: 1}
_MIRRORED = {BinOp.LT: BinOp.GT, BinOp.LE: BinOp.GE, BinOp.GE: BinOp.LE, BinOp.GT: BinOp.LT, BinOp.EQ: BinOp.EQ}


@dataclass(frozen=True)
class StretchUpdate:
    """An output that is an input with a stretch replaced.

    Attributes:
        whole: the input that the rest is of, by its name in the program.
        update: the input that the stretch is of.
        position: the input that says where it begins: one whole number.
        axis: the dimension that it runs along.
        first: where it begins, counted from the position.
        count: how many elements along the axis it has.
        dimensions: for each dimension of the update, the output's that it is; None for one of one element.

    """

    whole: str
    update: str
    position: str
    axis: int
    first: int
    count: int
    dimensions: tuple[int | None, ...]


def stretch_update(func: Func) -> StretchUpdate | None:
    """What an unscheduled program replaces; None where it does anything else."""
    stages = query.blocks(func)
    if len(stages) != 1 or len(func.outputs) != 1 or len(func.inputs) != 3 or func.scalars:
        return None
    (block,) = stages
    value = block.store.value
    if block.reducer is not None or block.index is not None or block.guards or not isinstance(value, Select):
        return None
    names = [index.name if isinstance(index, Var) else "" for index in block.store.indices]
    buffers = {b.name: b for b in func.inputs}
    then, rest = _uncast(value.then), value.otherwise
    if not isinstance(then, Load) or not isinstance(rest, Load) or rest.buffer == then.buffer:
        return None
    (position,) = buffers.keys() - {then.buffer, rest.buffer}
    if _size(buffers[position]) != 1 or not buffers[position].dtype.is_integer:
        return None
    if buffers[rest.buffer].shape != func.outputs[0].shape or rest.indices != block.store.indices:
        return None
    stretch = _stretch(_at_position(value.cond, position), names)
    if stretch is None:
        return None
    axis, first, end = stretch
    indices = [_at_position(index, position) for index in then.indices]
    along = _dimensions(indices, buffers[then.buffer], func.outputs[0], names, stretch)
    if along is None or end <= first:
        return None
    return StretchUpdate(rest.buffer, then.buffer, position, axis, first, end - first, along)


def _uncast(value: Expr) -> Expr:
    """What is made the type of the whole: a network in bf16 replaces a stretch of f32 by rounded elements."""
    return value.value if isinstance(value, Cast) else value


def _size(buffer: Buffer) -> int | None:
    total = 1
    for extent in buffer.shape:
        number = as_int(extent)
        if number is None:
            return None
        total *= number
    return total


def _at_position(e: Expr, position: str) -> Expr:
    """An expression with the element of the input `position` as a variable."""
    if isinstance(e, Load) and e.buffer == position:
        return Var(_POSITION)
    e = e.map(lambda child: _at_position(child, position))
    return e.value if isinstance(e, Cast) and e.value == Var(_POSITION) and e.type is INDEX else e


_Stretch = tuple[int, int, int]


def _stretch(cond: Expr, names: list[str]) -> _Stretch | None:
    """The axis, and the limits of its index less the position, where a condition holds."""
    axes: set[int] = set()
    lows: list[int] = []
    highs: list[int] = []
    for part in _parts(cond):
        if not isinstance(part, Binary) or part.op not in _MIRRORED:
            return None
        found = _linear(Binary(BinOp.SUB, part.a, part.b), [*names, _POSITION])
        if found is None:
            return None
        constant, steps, op = found[0], found[1], part.op
        along = [d for d in range(len(names)) if steps[d]]
        if len(along) != 1 or abs(steps[along[0]]) != 1 or steps[-1] != -steps[along[0]]:
            return None
        if steps[along[0]] < 0:
            constant, op = -constant, _MIRRORED[op]
        axes.add(along[0])
        lows += [_LOWEST[op] - constant] if op in _LOWEST else []
        highs += [_BEYOND[op] - constant] if op in _BEYOND else []
    if len(axes) != 1 or not lows or not highs:
        return None
    return axes.pop(), max(lows), min(highs)


def _parts(cond: Expr) -> Iterator[Expr]:
    if isinstance(cond, Binary) and cond.op is BinOp.AND:
        yield from _parts(cond.a)
        yield from _parts(cond.b)
    else:
        yield cond


def _dimensions(
    indices: list[Expr], update: Buffer, output: Buffer, names: list[str], stretch: _Stretch
) -> tuple[int | None, ...] | None:
    """The output's dimension that each of the update's is, where they are the same elements in the same order."""
    axis, first, end = stretch
    found: list[int | None] = []
    for index, extent in zip(indices, (as_int(e) for e in update.shape), strict=True):
        linear = _linear(index, [*names, _POSITION])
        if linear is None:
            return None
        constant, steps = linear
        along = [d for d in range(len(names)) if steps[d] and as_int(output.shape[d]) != 1]
        if along == [axis] and (constant, steps[axis], steps[-1], extent) == (-first, 1, -1, end - first):
            found.append(axis if extent != 1 else None)
        elif extent == 1 and not along and not steps[-1]:
            found.append(None)
        elif len(along) == 1 and along[0] != axis and not steps[-1]:
            (d,) = along
            if (constant, steps[d], extent) != (0, 1, as_int(output.shape[d])):
                return None
            found.append(d)
        else:
            return None
    wanted = [d for d, e in enumerate(output.shape) if (as_int(e) if d != axis else end - first) != 1]
    return tuple(found) if sorted(d for d in found if d is not None) == wanted else None


def _linear(index: Expr, names: list[str]) -> tuple[int, list[int]] | None:
    """A constant, and the coefficient of each variable; None where that is not all."""
    if not index.dtype.is_integer or free_vars(index) - set(names):
        return None
    known: Mapping[str, Expr] = dict.fromkeys((name for name in names if name), ZERO)
    constant = as_int(substitute(index, known))
    if constant is None:
        return None
    try:
        steps = [as_int(coefficient(index, name)) if name else 0 for name in names]
    except NotAffine:
        return None
    whole = [step for step in steps if step is not None]
    return (constant, whole) if len(whole) == len(steps) else None
