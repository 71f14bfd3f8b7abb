"""Places of a tensor that are known, one for each of some updates: a box of it, or a table of which update is where.

An assignment such as `x[:, 1:5, ::2] = y` is exported with an index for each element. The places of it are a box:
along each dimension they are one number, or go on in equal steps along a dimension of the updates of its own.
"""

from __future__ import annotations

import numpy as np

from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class BoxSide:
    """The places along one dimension: `count` of them from `first` on, `step` apart.

    `axis` is the dimension of the updates that goes along it; None where they have one there.
    """

    first: int
    step: int
    count: int
    axis: int | None

    def condition(self, index: str, extent: int) -> list[str]:
        """What holds of an index of the dimension, which has `extent` elements, inside."""
        out = [f"{index} >= {self.first}"] * (self.first > 0)
        end = self.first + self.step * (self.count - 1) + 1
        out += [f"{index} < {end}"] * (end < extent)
        return out + [f"({self._offset_from_first(index)}) % {self.step} == 0"] * (self.step > 1)

    def update_index(self, index: str) -> str:
        """The index of the updates at an index of the dimension."""
        if self.axis is None:
            return "0"
        offset = self._offset_from_first(index)
        return offset if self.step == 1 else f"({offset}) // {self.step}"

    def _offset_from_first(self, index: str) -> str:
        return f"{index} - {self.first}" if self.first else index


def wrap_negative_places(places: Array, shape: tuple[int, ...]) -> Array:
    """Places, shape (..., depth), along the first dimensions of `shape`, each counted from the beginning.

    Raises Unsupported for one that is not there.
    """
    extents = np.array(shape[: places.shape[-1]], np.int64)
    wide = places.astype(np.int64)
    bad = (wide < -extents) | (wide >= extents)
    if bad.any():
        *_, dim = (int(n) for n in np.argwhere(bad)[0])
        raise Unsupported(f"an index is {wide[bad][0]}, and there are {shape[dim]} elements")
    counted: Array = np.where(wide < 0, wide + extents, wide)
    return counted


def box_of(places: Array) -> tuple[BoxSide, ...] | None:
    """The sides of the box that places, shape (*updates, depth), are; None where they are none.

    No place of a box is there twice: each dimension of the updates with several elements goes along one of its own.
    """
    updates = places.shape[:-1]
    sides = [_side(places[..., dim]) for dim in range(places.shape[-1])]
    if any(side is None for side in sides):
        return None
    known = tuple(side for side in sides if side is not None)
    used = sorted(side.axis for side in known if side.axis is not None)
    return known if used == [axis for axis, n in enumerate(updates) if n > 1] else None


def _side(places: Array) -> BoxSide | None:
    first = int(places.flat[0])
    steps = {axis: int(np.take(places, 1, axis).flat[0]) - first for axis, n in enumerate(places.shape) if n > 1}
    moving = {axis: step for axis, step in steps.items() if step}
    if len(moving) > 1 or any(step < 0 for step in moving.values()):
        return None
    axis = next(iter(moving), None)
    side = BoxSide(first, 1, 1, None) if axis is None else BoxSide(first, moving[axis], places.shape[axis], axis)
    shape = [side.count if dim == axis else 1 for dim in range(places.ndim)]
    expected = (first + side.step * np.arange(side.count)).reshape(shape)
    return side if np.array_equal(places, np.broadcast_to(expected, places.shape)) else None


def last_updates(places: Array, count: int) -> Array:
    """For each of `count` places, the number of the last update that is for it; -1 where none is."""
    out = np.full(count, -1, np.int64)
    np.maximum.at(out, places, np.arange(len(places)))
    return out


def last_updates_along(index: Array, axis: int, shape: tuple[int, ...]) -> Array:
    """For each place on lines along an axis, the number of the last update for it; -1 where none is.

    `index` says for each update where it goes on its line; the result has the shape `shape`.
    """
    out = np.full(shape, -1, np.int64)
    region = out[tuple(slice(None) if dim == axis else slice(n) for dim, n in enumerate(index.shape))]
    numbers = np.arange(index.shape[axis]).reshape([-1 if dim == axis else 1 for dim in range(index.ndim)])
    own = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    own[axis] = index
    np.maximum.at(region, tuple(own), np.broadcast_to(numbers, index.shape))
    return out
