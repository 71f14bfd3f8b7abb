"""The bilateral grid and the local Laplacian in Halide, each with a schedule by hand.

As `benchmarks.halide_pipelines`. The algorithms are those of examples/pipelines, term by term; the schedules are
written anew after what Halide's papers say of theirs: stages of the grid and levels of the pyramids stored whole,
each in vectors along rows that threads share, and what is finest computed where it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import halide as hl  # type: ignore[import-not-found]

from benchmarks.halide_pipelines import LANES, ROWS, H, Pipeline, W, c, f, x, y

z = hl.Var("z")
CELL, DEPTHS = 8, 10
LEVELS, BRIGHTNESSES = 4, 8
Size = tuple[int, int]  # columns, rows


def _blur(name: str, of: Callable[[int], Any]) -> Any:
    made = hl.Func(name)
    made[x, y, z, c] = of(-2) + of(-1) * f(4.0) + of(0) * f(6.0) + of(1) * f(4.0) + of(2)
    return made


def bilateral_grid() -> Pipeline:
    image = hl.ImageParam(hl.Float(32), 2, "X")
    beyond = hl.BoundaryConditions.repeat_edge(image, [(0, W), (0, H)])
    r = hl.RDom([(0, CELL), (0, CELL)])
    cells, grid = hl.Func("cells"), hl.Func("grid")
    value = hl.clamp(beyond[x * CELL + r.x - CELL // 2, y * CELL + r.y - CELL // 2], f(0.0), f(1.0))
    cells[x, y, z, c] = f(0.0)
    level = hl.clamp(hl.i32(value * f(DEPTHS) + f(0.5)), 0, DEPTHS)
    cells[x, y, level, c] += hl.select(c == 0, value, f(1.0))
    across_z = _blur("across_z", lambda d: cells[x, y, z + d, c])
    across_x = _blur("across_x", lambda d: across_z[x + d, y, z, c])
    across_y = _blur("across_y", lambda d: across_x[x, y + d, z, c])
    place = hl.clamp(image[x, y], f(0.0), f(1.0)) * f(DEPTHS)
    low = hl.clamp(hl.i32(place), 0, DEPTHS)
    part = place - hl.f32(hl.i32(place))
    right, down = hl.f32(x % CELL) / f(CELL), hl.f32(y % CELL) / f(CELL)

    def between(a: Any, b: Any, share: Any) -> Any:
        return a * (f(1.0) - share) + b * share

    def plane(depth: Any) -> Any:
        g = across_y
        i, j = x // CELL, y // CELL
        above = between(g[i, j, depth, c], g[i, j + 1, depth, c], down)
        below = between(g[i + 1, j, depth, c], g[i + 1, j + 1, depth, c], down)
        return between(above, below, right)

    both = hl.Func("both")
    both[x, y, c] = between(plane(low), plane(low + 1), part)
    grid[x, y] = both[x, y, 0] / both[x, y, 1]

    def by_hand() -> None:
        across_z.compute_root().reorder(c, z, x, y).parallel(y).vectorize(x, LANES).unroll(c)
        cells.compute_at(across_z, y).vectorize(x, LANES)
        cells.update().reorder(c, r.x, r.y, x, y).unroll(c)
        for stage in (across_x, across_y):
            stage.compute_root().reorder(c, x, y, z).parallel(z).vectorize(x, LANES).unroll(c)
        grid.parallel(y, 8).vectorize(x, LANES)

    return Pipeline((image,), grid, (W, H), by_hand)


def local_laplacian() -> Pipeline:
    image = hl.ImageParam(hl.Float(32), 2, "X")
    sizes: list[Size] = [(W, H)]
    for _ in range(LEVELS - 1):
        sizes.append(((sizes[-1][0] + 1) // 2, (sizes[-1][1] + 1) // 2))
    step = 1.0 / (BRIGHTNESSES - 1)
    remapped, grey = hl.Func("remapped"), hl.Func("grey")
    level = hl.f32(z) * f(step)
    away = (image[x, y] - level) * f(BRIGHTNESSES - 1)
    remapped[x, y, z] = level + (image[x, y] - level) + f(step) * away * hl.exp(away * away * f(-0.5))
    grey[x, y, z] = image[x, y]
    wide, narrow = [remapped], [grey]
    for n in range(1, LEVELS):
        wide.append(_halve(f"wide{n}", wide[-1], sizes[n - 1]))
        narrow.append(_halve(f"narrow{n}", narrow[-1], sizes[n - 1]))
    results = [_interpolate_plane(f"result{LEVELS - 1}", narrow[-1], wide[-1])]
    for n in reversed(range(LEVELS - 1)):
        details, total = hl.Func(f"details{n}"), hl.Func(f"result{n}")
        details[x, y, z] = wide[n][x, y, z] - _double(f"coarse{n}", wide[n + 1], sizes[n + 1])[x, y, z]
        doubled = _double(f"doubled{n}", results[-1], sizes[n + 1])
        total[x, y, z] = _interpolate_plane(f"picked{n}", narrow[n], details)[x, y, z] + doubled[x, y, z]
        results.append(total)
    out = hl.Func("out")
    out[x, y] = results[-1][x, y, 0]

    def by_hand() -> None:
        for stage in (*wide[1:], *narrow[1:], *results[:-1]):
            stage.compute_root().parallel(y, 8).vectorize(x, LANES)
        out.parallel(y, ROWS).vectorize(x, LANES)

    return Pipeline((image,), out, (W, H), by_hand)


def _halve(name: str, of: Any, size: Size) -> Any:
    """Take every second element after a filter of 1, 3, 3, 1 along each dimension."""
    inside = hl.BoundaryConditions.repeat_edge(of, [(0, size[0]), (0, size[1])])
    columns, rows = hl.Func(f"{name}_across"), hl.Func(name)
    a, b = f(0.125), f(0.375)
    columns[x, y, z] = (inside[2 * x - 1, y, z] + inside[2 * x + 2, y, z]) * a + (
        inside[2 * x, y, z] + inside[2 * x + 1, y, z]
    ) * b
    rows[x, y, z] = (columns[x, 2 * y - 1, z] + columns[x, 2 * y + 2, z]) * a + (
        columns[x, 2 * y, z] + columns[x, 2 * y + 1, z]
    ) * b
    return rows


def _double(name: str, of: Any, size: Size) -> Any:
    """Make twice the elements along each dimension: three quarters of the nearer, one of the other."""
    inside = hl.BoundaryConditions.repeat_edge(of, [(0, size[0]), (0, size[1])])
    columns, rows = hl.Func(f"{name}_across"), hl.Func(name)
    columns[x, y, z] = inside[x // 2, y, z] * f(0.75) + inside[x // 2 - 1 + 2 * (x % 2), y, z] * f(0.25)
    rows[x, y, z] = columns[x, y // 2, z] * f(0.75) + columns[x, y // 2 - 1 + 2 * (y % 2), z] * f(0.25)
    return rows


def _interpolate_plane(name: str, grey: Any, planes: Any) -> Any:
    """Interpolate between the two planes whose brightnesses are nearest to that of the image."""
    made = hl.Func(name)
    place = grey[x, y, 0] * f(BRIGHTNESSES - 1)
    whole = hl.i32(place)
    low, high = hl.clamp(whole, 0, BRIGHTNESSES - 2), hl.clamp(whole + 1, 1, BRIGHTNESSES - 1)
    part = place - hl.f32(low)
    made[x, y, z] = planes[x, y, low] * (f(1.0) - part) + planes[x, y, high] * part
    return made
