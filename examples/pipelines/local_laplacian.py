"""Local Laplacian filters (Paris, Hasinoff and Kautz 2011) as a program of metasched, with pyramids of any depth."""

from __future__ import annotations

import metasched as ms

Size = tuple[int, int]


def local_laplacian(
    height: int = 1536, width: int = 2560, depth: int = 4, levels: int = 8, alpha: float = 1.0, beta: float = 1.0
) -> ms.Program:
    """A grey image f32[height, width] in [0, 1] with its details changed and its edges kept.

    Args:
        height, width: of the image; each is at least 2**(depth - 1).
        depth: how many levels the pyramids have.
        levels: how many brightnesses the image is remapped around.
        alpha: how much details are amplified, beside 1.
        beta: how much of the difference between large areas is kept.
    """
    image = ms.placeholder("X", (height, width))
    sizes = [(height, width)]
    for _ in range(depth - 1):
        sizes.append(((sizes[-1][0] + 1) // 2, (sizes[-1][1] + 1) // 2))
    step = 1.0 / (levels - 1)

    def remapped(k: ms.Value, i: ms.Value, j: ms.Value) -> ms.Value:
        level = ms.cast(k, "f32") * step
        away = (image[i, j] - level) * float(levels - 1)
        return level + beta * (image[i, j] - level) + alpha * step * away * ms.exp(away * away * -0.5)

    wide = [ms.compute("R", (levels, height, width), remapped)]
    narrow = [ms.compute("I", (1, height, width), lambda k, i, j: image[i, j])]
    for n, size in list(enumerate(sizes))[1:]:
        wide.append(_halved(f"G{n}", wide[-1], levels, sizes[n - 1], size))
        narrow.append(_halved(f"I{n}", narrow[-1], 1, sizes[n - 1], size))
    result = _picked(f"O{depth - 1}", narrow[-1], wide[-1], levels, sizes[-1])
    for n in reversed(range(depth - 1)):
        coarse = _doubled(f"W{n}", wide[n + 1], levels, sizes[n])
        details = _difference(f"L{n}", wide[n], coarse, levels, sizes[n])
        picked = _picked(f"P{n}", narrow[n], details, levels, sizes[n])
        result = _sum(f"O{n}", picked, _doubled(f"U{n}", result, 1, sizes[n]), sizes[n])
    out = ms.compute("Y", (height, width), lambda i, j: result[0, i, j])
    return ms.program("local_laplacian", [image], [out])


def _halved(name: str, of: ms.Tensor, planes: int, size: Size, to: Size) -> ms.Tensor:
    """Every second element after a filter of 1, 3, 3, 1 along each dimension."""
    (h, w), (out_h, out_w) = size, to

    def across(k: ms.Value, i: ms.Value, j: ms.Value) -> ms.Value:
        return _filtered([of[k, i, ms.clamp(2 * j + d, 0, w - 1)] for d in (-1, 0, 1, 2)])

    rows = ms.compute(f"{name}x", (planes, h, out_w), across)

    def down(k: ms.Value, i: ms.Value, j: ms.Value) -> ms.Value:
        return _filtered([rows[k, ms.clamp(2 * i + d, 0, h - 1), j] for d in (-1, 0, 1, 2)])

    return ms.compute(name, (planes, out_h, out_w), down)


def _filtered(values: list[ms.Value]) -> ms.Value:
    a, b, c, d = values
    return (a + d) * 0.125 + (b + c) * 0.375


def _doubled(name: str, of: ms.Tensor, planes: int, to: Size) -> ms.Tensor:
    """Twice the elements along each dimension, interpolated: three quarters of the nearer, one of the other."""
    h, w = to
    last_row, last_column = (h + 1) // 2 - 1, (w + 1) // 2 - 1

    def across(k: ms.Value, i: ms.Value, j: ms.Value) -> ms.Value:
        return of[k, i, j // 2] * 0.75 + of[k, i, ms.clamp(j // 2 - 1 + 2 * (j % 2), 0, last_column)] * 0.25

    columns = ms.compute(f"{name}x", (planes, last_row + 1, w), across)

    def down(k: ms.Value, i: ms.Value, j: ms.Value) -> ms.Value:
        return columns[k, i // 2, j] * 0.75 + columns[k, ms.clamp(i // 2 - 1 + 2 * (i % 2), 0, last_row), j] * 0.25

    return ms.compute(name, (planes, h, w), down)


def _difference(name: str, fine: ms.Tensor, coarse: ms.Tensor, planes: int, size: Size) -> ms.Tensor:
    return ms.compute(name, (planes, *size), lambda k, i, j: fine[k, i, j] - coarse[k, i, j])


def _sum(name: str, a: ms.Tensor, b: ms.Tensor, size: Size) -> ms.Tensor:
    return ms.compute(name, (1, *size), lambda k, i, j: a[k, i, j] + b[k, i, j])


def _picked(name: str, grey: ms.Tensor, planes: ms.Tensor, levels: int, size: Size) -> ms.Tensor:
    """Between the two planes whose brightnesses are nearest to that of the image."""

    def between(k: ms.Value, i: ms.Value, j: ms.Value) -> ms.Value:
        place = grey[k, i, j] * float(levels - 1)
        whole = ms.cast(place, "i32")
        low, high = ms.clamp(whole, 0, levels - 2), ms.clamp(whole + 1, 1, levels - 1)
        part = place - ms.cast(low, "f32")
        return planes[low, i, j] * (1.0 - part) + planes[high, i, j] * part

    return ms.compute(name, (1, *size), between)
