"""The pipelines of `benchmarks.pipelines` in Halide, each with a schedule by hand.

Run by a Python that has Halide; it needs nothing else of the project. The algorithms are those of examples/pipelines,
term by term; the schedules by hand are written anew after those of Halide's papers and applications: sliding windows in
strips of rows that threads share, and vectors along rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import halide as hl  # type: ignore[import-not-found]

H, W = 1536, 2560
LANES = 16
ROWS = 32
x, y, c, yi = (hl.Var(name) for name in ("x", "y", "c", "yi"))


@dataclass(frozen=True)
class Pipeline:
    """Inputs, the result, its size (Halide's order: columns first), and what schedules it by hand."""

    inputs: Sequence[Any]
    output: Any
    size: tuple[int, ...]
    by_hand: Callable[[], None]


def f(value: float) -> Any:
    return hl.f32(value)


def strips(output: Any, rows: int = ROWS, lanes: int = LANES) -> None:
    output.split(y, y, yi, rows).parallel(y).vectorize(x, lanes)


def window(stage: Any, output: Any, lanes: int = LANES) -> None:
    stage.store_at(output, y).compute_at(output, yi).vectorize(x, lanes)


def blur() -> Pipeline:
    image = hl.ImageParam(hl.UInt(16), 2, "X")
    across, down = hl.Func("across"), hl.Func("down")
    across[x, y] = (image[x, y] + image[x + 1, y] + image[x + 2, y]) // 3
    down[x, y] = (across[x, y] + across[x, y + 1] + across[x, y + 2]) // 3

    def by_hand() -> None:
        strips(down, lanes=32)
        window(across, down, lanes=32)

    return Pipeline((image,), down, (W, H), by_hand)


def grey_of(image: Any) -> Any:
    grey = hl.Func("grey")
    grey[x, y] = f(0.299) * image[x, y, 0] + f(0.587) * image[x, y, 1] + f(0.114) * image[x, y, 2]
    return grey


def unsharp() -> Pipeline:
    image, weights = hl.ImageParam(hl.Float(32), 3, "X"), hl.ImageParam(hl.Float(32), 1, "G")
    grey = grey_of(hl.BoundaryConditions.repeat_edge(image, [(0, W), (0, H)]))
    down, across, ratio, sharp = (hl.Func(name) for name in ("down", "across", "ratio", "sharp"))
    down[x, y] = sum((weights[k] * grey[x, y + k - 3] for k in range(1, 7)), weights[0] * grey[x, y - 3])
    across[x, y] = sum((weights[k] * down[x + k - 3, y] for k in range(1, 7)), weights[0] * down[x - 3, y])
    ratio[x, y] = (f(2.0) * grey[x, y] - across[x, y]) / grey[x, y]
    sharp[x, y, c] = ratio[x, y] * image[x, y, c]

    def by_hand() -> None:
        sharp.split(y, y, yi, ROWS).vectorize(x, LANES).parallel(y).reorder(x, c, yi, y).bound(c, 0, 3).unroll(c)
        window(grey, sharp)
        down.compute_at(sharp, yi).vectorize(x, LANES)
        ratio.compute_at(sharp, yi).vectorize(x, LANES)

    return Pipeline((image, weights), sharp, (W, H, 3), by_hand)


def harris() -> Pipeline:
    image = hl.ImageParam(hl.Float(32), 3, "X")
    grey = grey_of(image)
    vertical, horizontal, corners = (hl.Func(name) for name in ("vertical", "horizontal", "corners"))
    twelfth = f(0.083333336)
    q = grey
    vertical[x, y] = (
        q[x, y + 2] - q[x, y] + (q[x + 1, y + 2] - q[x + 1, y]) * f(2.0) + q[x + 2, y + 2] - q[x + 2, y]
    ) * twelfth
    horizontal[x, y] = (
        q[x + 2, y] - q[x, y] + (q[x + 2, y + 1] - q[x, y + 1]) * f(2.0) + q[x + 2, y + 2] - q[x, y + 2]
    ) * twelfth

    def sums(name: str, a: Any, b: Any) -> Any:
        product, total = hl.Func(f"{name}_product"), hl.Func(name)
        product[x, y] = a[x, y] * b[x, y]
        places = [(i, j) for j in range(3) for i in range(3)]
        total[x, y] = sum((product[x + i, y + j] for i, j in places[1:]), product[x, y])
        return total[x, y]

    uu, vv, uv = sums("uu", horizontal, horizontal), sums("vv", vertical, vertical), sums("uv", horizontal, vertical)
    corners[x, y] = uu * vv - uv * uv - f(0.04) * (uu + vv) * (uu + vv)

    def by_hand() -> None:
        strips(corners)
        for stage in (grey, vertical, horizontal):
            window(stage, corners)
        horizontal.compute_with(vertical, x)

    return Pipeline((image,), corners, (W - 4, H - 4), by_hand)


def demosaic() -> Pipeline:
    image = hl.ImageParam(hl.UInt(16), 2, "X")
    border, colours = hl.Func("border"), hl.Func("colours")
    mirrored = hl.BoundaryConditions.mirror_interior(image, [(0, W), (0, H)])
    border[x, y] = hl.i32(mirrored[x - 1, y - 1])
    p = border
    across, down, beside, diagonal = (hl.Func(name) for name in ("across", "down", "beside", "diagonal"))
    across[x, y] = (p[x, y + 1] + p[x + 2, y + 1]) // 2
    down[x, y] = (p[x + 1, y] + p[x + 1, y + 2]) // 2
    beside[x, y] = (p[x, y + 1] + p[x + 2, y + 1] + p[x + 1, y] + p[x + 1, y + 2]) // 4
    diagonal[x, y] = (p[x, y] + p[x + 2, y] + p[x, y + 2] + p[x + 2, y + 2]) // 4
    row, column = y % 2 == 0, x % 2 == 0
    # What a function reads is a tuple to `select`, unless it is an expression.
    own, h, v, n, d = (hl.Expr(e) for e in (p[x + 1, y + 1], across[x, y], down[x, y], beside[x, y], diagonal[x, y]))
    red = hl.select(row, hl.select(column, h, own), hl.select(column, d, v))
    green = hl.select((x + y) % 2 == 0, own, n)
    blue = hl.select(row, hl.select(column, v, d), hl.select(column, own, h))
    colours[x, y, c] = hl.cast(hl.UInt(16), hl.select(c == 0, red, hl.select(c == 1, green, blue)))

    def by_hand() -> None:
        colours.split(y, y, yi, ROWS).vectorize(x, LANES).parallel(y).reorder(x, c, yi, y).bound(c, 0, 3).unroll(c)
        window(border, colours)

    return Pipeline((image,), colours, (W, H, 3), by_hand)


def histogram() -> Pipeline:
    image = hl.ImageParam(hl.UInt(8), 2, "X")
    counts, shares, equal = hl.Func("counts"), hl.Func("shares"), hl.Func("equal")
    r, b = hl.RDom([(0, W), (0, H)]), hl.RDom([(1, 255)])
    v = hl.Var("v")
    counts[v] = 0
    counts[hl.i32(image[r.x, r.y])] += 1
    shares[v] = counts[0]
    shares[b.x] = shares[b.x - 1] + counts[b.x]
    table = hl.Func("table")
    table[v] = hl.cast(hl.UInt(8), hl.f32(shares[v]) * f(255.0 / (H * W)))
    equal[x, y] = table[hl.i32(image[x, y])]

    def by_hand() -> None:
        partial = counts.update().rfactor(r.y, y)
        partial.compute_root().update().parallel(y)
        counts.compute_root().vectorize(v, 8)
        shares.compute_root()
        table.compute_root()
        equal.parallel(y, 8).vectorize(x, 64)

    return Pipeline((image,), equal, (W, H), by_hand)


PIPELINES: Mapping[str, Callable[[], Pipeline]] = {
    made.__name__: made for made in (blur, unsharp, harris, demosaic, histogram)
}
