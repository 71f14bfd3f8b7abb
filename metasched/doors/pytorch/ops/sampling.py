"""Elements sampled between those of a grid, and distances of points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.doors.pytorch.ops.reductions import vector_norm
from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.text import broadcast

_MODES = ("linear", "nearest", "cubic")
_BORDERS = ("zeros", "border", "reflection")
# The parameter of the cubic kernel, where sizes become smaller and elements are averaged.
_AVERAGING_CUBIC_COEFFICIENT = -0.5


@aten("grid_sampler_2d", "grid_sampler_3d")
def grid_sample(
    site: AtenSite,
    x: GraphValue,
    grid: GraphValue,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> GraphValue:
    return site.call(
        "GridSample",
        x,
        grid,
        mode=_MODES[interpolation_mode],
        padding_mode=_BORDERS[padding_mode],
        align_corners=int(align_corners),
    )


@aten("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
def averaged_resize(
    site: AtenSite,
    x: GraphValue,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> GraphValue:
    """Sizes made smaller without aliases. Where a factor was given, PyTorch goes by that, and not by the sizes."""
    if align_corners:
        raise Unsupported("corners are aligned by a scale with centres of elements, which has no form here")
    sizes, factors = (*x.shape[:2], *output_size), None
    if scales_h is not None or scales_w is not None:
        of_sizes = [size / extent for size, extent in zip(output_size, x.shape[2:], strict=True)]
        given = [own if scale is None else scale for scale, own in zip((scales_h, scales_w), of_sizes, strict=True)]
        factors = site.nodes.constant("scales", np.asarray([1.0, 1.0, *given], np.float32))
    return site.call(
        "Resize",
        x,
        None,
        factors,
        site.integers(sizes) if factors is None else None,
        mode="cubic" if "cubic" in site.name else "linear",
        antialias=1,
        exclude_outside=1,
        cubic_coeff_a=_AVERAGING_CUBIC_COEFFICIENT,
    )


@aten("_cdist_forward")
def distances(site: AtenSite, x: GraphValue, y: GraphValue, p: float, compute_mode: int | None = None) -> GraphValue:
    """The distances of each point of one set to each of another."""
    batch = broadcast(x.shape[:-2], y.shape[:-2])
    one = site.nodes.view(x, (*x.shape[:-1], 1, x.shape[-1]))
    other = site.nodes.view(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    return vector_norm(site, site.expression("{0} - {1}", one, other), p, [len(batch) + 2])


@aten("_pdist_forward")
def distances_within(site: AtenSite, x: GraphValue, p: float = 2.0) -> GraphValue:
    pairs = np.triu_indices(x.shape[0], 1)
    one, other = (site.call("Gather", x, site.nodes.constant("rows", rows), axis=0) for rows in pairs)
    return vector_norm(site, site.expression("{0} - {1}", one, other), p, [1])
