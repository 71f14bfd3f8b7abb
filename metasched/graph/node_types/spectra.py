"""Fourier transforms, as products with tables of cosines and sines that are made at load; scales of pitches.

A transform of n elements takes n^2 products: what is computed is a program like any other, and n is a few hundred where
sounds are taken apart. Longer ones, of p * q elements, are q transforms of every q-th element, turned by what these are
apart, and p transforms of those (Cooley and Tukey 1965, "An algorithm for the machine calculation of complex Fourier
series").
"""

from __future__ import annotations

import math

import numpy as np

from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.node_types.matmul import product
from metasched.graph.reading.tensors import element_type
from metasched.graph.registry import call_node, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import cast
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue, ...]

# A table has no more elements: 64 MB of f32.
_MOST_ELEMENTS = 2**24
# From this operator set on the axis is an input.
_AXIS_IS_AN_INPUT = 20
# How many times as many products a transform at once has where one in two steps, whose rows are moved, takes less time.
_WORTH_TWO_STEPS = 2


@node_type("DFT")
def fourier_transform(site: NodeSite) -> Results:
    """The transform along an axis; the last axis holds real parts, and imaginary ones where it has two elements."""
    x = site.operand(0)
    _require_parts(x)
    if site.opset < _AXIS_IS_AN_INPUT:
        number = int(site.attribute("axis", 1))
    else:
        number = -2 if site.optional(2) is None else site.integers(2, "axis")[0]
    axis = site.axis(number, x.rank)
    if axis == x.rank - 1:
        raise Unsupported("the last axis holds the parts of numbers, and is not transformed")
    inverse, onesided = site.flag("inverse"), site.flag("onesided")
    is_storage = inverse and onesided
    length = 2 * (x.shape[axis] - 1) if is_storage else x.shape[axis]
    if site.optional(1) is not None:
        length = site.integers(1, "length")[0]
    if length < 1:
        raise Unsupported(f"it transforms {length} elements")
    bins = length // 2 + 1
    taken = min(x.shape[axis], bins if is_storage else length)
    made = length if inverse or not onesided else bins
    order = [dim for dim in range(x.rank) if dim != axis]
    order.insert(-1, axis)
    turned = _transpose(site, slice_axes(site, x, {axis: (0, 1, taken)}), order)
    if is_storage:
        found = _multiply_by_table(site, turned, _real_table(length, taken))
    else:
        found = _transform(site, turned, length, made, inverse=inverse)
    return (_transpose(site, found, [order.index(dim) for dim in range(x.rank)]),)


@node_type("STFT")
def short_time_fourier_transform(site: NodeSite) -> Results:
    """The transforms of frames of a signal `[batch, length, parts]`, each times the window.

    PyTorch exports signals of one part as `[batch, length]`.
    """
    signal, window = site.operand(0), site.optional(2)
    if signal.rank == 2:
        signal = site.view(signal, (*signal.shape, 1))
    _require_parts(signal)
    if signal.rank != 3:
        raise Unsupported(f"its signal is {signal.type}, and not one of [batch, length, parts]")
    batch, whole, parts = signal.shape
    step = site.integers(1, "step")[0]
    length = whole if window is None else window.shape[0]
    if site.optional(3) is not None:
        length = site.integers(3, "length of frames")[0]
    if step < 1 or not 1 <= length <= whole or (window is not None and window.shape != (length,)):
        raise Unsupported(f"it takes frames of {length} elements, {step} apart, of a signal of {whole}")
    onesided = site.flag("onesided", 1)
    if onesided and parts > 1:
        raise Unsupported("of complex numbers, a transform has two sides")
    weighed = "" if window is None else " * W[n]"
    stage = f"Y[b, f, n, c] = A[b, f * {step} + n, c]{weighed}"
    frames = ValueType(signal.type.dtype, (batch, (whole - length) // step + 1, length, parts))
    weighted = site.single([stage], frames, A=signal, W=window)
    return (_transform(site, weighted, length, length // 2 + 1 if onesided else length, inverse=False),)


def _require_parts(x: GraphValue) -> None:
    if not x.type.dtype.is_float or x.rank < 2 or x.shape[-1] not in (1, 2):
        raise Unsupported(f"it transforms floats whose last axis has one part or two, and its input is {x.type}")


def _transform(site: NodeSite, x: GraphValue, length: int, made: int, *, inverse: bool) -> GraphValue:
    """The first elements made of the transforms of so many elements along the last axis but one, of which some are
    there.
    """
    *_, taken, parts = x.shape
    first = next(n for n in range(math.isqrt(length), 0, -1) if length % n == 0)
    at_once, in_steps = parts * made, parts * first + 2 * (length // first)
    if taken == length and at_once > _WORTH_TWO_STEPS * in_steps:
        return _transform_in_steps(site, x, first, made, inverse=inverse)
    return _multiply_by_table(site, x, _table(length, taken, made, parts, inverse=inverse))


def _transform_in_steps(site: NodeSite, x: GraphValue, first: int, made: int, *, inverse: bool) -> GraphValue:
    """Transforms of `first` elements, as far apart as there are of these, and then of what is at one place of each."""
    *outer, length, parts = x.shape
    rows, second, wide = math.prod(outer), length // first, x.type.dtype.compute
    apart = ValueType(wide, (rows, second, first, parts))
    stage = f"Y[b, q, p, c] = {cast('A[b, p, q, c]', x.type.dtype, wide)}"
    near = site.single([stage], apart, A=site.view(x, (rows, first, second, parts)))
    steps = _multiply_by_table(site, near, _table(first, first, first, parts, inverse=inverse))
    angles = np.outer(np.arange(second), np.arange(first)) * (2.0 * np.pi / length)
    cosines, sines = np.cos(angles), np.sin(angles) * (1.0 if inverse else -1.0)
    turns = [site.constant(np.stack(pair, -1), wide) for pair in ((cosines, sines), (-sines, cosines))]
    stage = "Y[b, p, q, c] = A[b, q, p, 0] * R[q, p, c] + A[b, q, p, 1] * I[q, p, c]"
    turned = site.single([stage], ValueType(wide, (rows, first, second, 2)), A=steps, R=turns[0], I=turns[1])
    found = _multiply_by_table(site, turned, _table(second, second, second, 2, inverse=inverse))
    element = cast(f"A[b, n % {first}, n // {first}, c]", wide, x.type.dtype)
    ordered = site.single([f"Y[b, n, c] = {element}"], ValueType(x.type.dtype, (rows, made, 2)), A=found)
    return site.view(ordered, (*outer, made, 2))


def _table(length: int, taken: int, made: int, parts: int, *, inverse: bool) -> Array:
    """What each part of each element taken adds to each part of each one made: `[taken, parts, made, 2]`."""
    cosines, sines = _waves(length, taken, made)
    sign, scale = (1.0, 1.0 / length) if inverse else (-1.0, 1.0)
    of_real = np.stack([cosines, sign * sines], -1)
    of_imaginary = np.stack([-sign * sines, cosines], -1)
    return scale * np.stack([of_real, of_imaginary][:parts], 1)


def _real_table(length: int, taken: int) -> Array:
    """The table of the inverse of half a spectrum, `[taken, 2, made, 1]`; the other half mirrors it and is not
    there.
    """
    cosines, sines = _waves(length, taken, length)
    number = np.arange(taken)
    # All but the first, and the middle one of an even count, stand for their mirror images, too.
    times = np.where((number == 0) | (2 * number == length), 1.0, 2.0) / length
    table: Array = times[:, None, None, None] * np.stack([cosines, -sines], 1)[..., None]
    return table


def _waves(length: int, taken: int, made: int) -> tuple[Array, Array]:
    if 4 * taken * made > _MOST_ELEMENTS:
        raise Unsupported(f"a transform of {taken} elements to {made} is a table of more than {_MOST_ELEMENTS} numbers")
    turns = np.outer(np.arange(taken, dtype=np.int64), np.arange(made, dtype=np.int64)) % length
    angles = turns * (2.0 * np.pi / length)
    return np.cos(angles), np.sin(angles)


def _multiply_by_table(site: NodeSite, x: GraphValue, table: Array) -> GraphValue:
    """The product of the last two axes with a table."""
    if x.shape[-1] > table.shape[1]:
        raise Unsupported(f"it transforms real numbers, and its input is {x.type}")
    if x.shape[-1] < table.shape[1]:
        table = table[:, : x.shape[-1]]
    wide, (taken, parts, *made) = x.type.dtype.compute, table.shape
    outer = x.shape[:-2]
    matrix = site.constant(table.reshape(taken * parts, -1), wide)
    flat = site.view(x, (math.prod(outer), taken * parts))
    return site.view(product(site, flat, matrix, wide, x.type.dtype), (*outer, *made))


def _transpose(site: NodeSite, value: GraphValue, order: list[int]) -> GraphValue:
    return call_node(site, "Transpose", value, perm=order)


@node_type("MelWeightMatrix")
def mel_weight_matrix(site: NodeSite) -> Results:
    """Triangles over the bins of a spectrum, whose corners are the same distance apart on the mel scale."""
    named = ("count of bands", "length", "rate", "lower edge", "upper edge")
    bands, length, rate, low, high = (site.require_known(n, what).reshape(-1)[0].item() for n, what in enumerate(named))
    mels = 2595.0 * np.log10(1.0 + np.array([low, high]) / 700.0)
    corners = mels[0] + np.arange(bands + 2) * ((mels[1] - mels[0]) / (bands + 2))
    hertz = 700.0 * (10.0 ** (corners / 2595.0) - 1.0)
    edge = ((length + 1) * hertz // rate).astype(np.int64)
    left, middle, right = edge[:-2], edge[1:-1], edge[2:]
    bins = np.arange(length // 2 + 1)[:, None]
    rising = np.where(left == middle, 1.0, (bins - left) / np.maximum(middle - left, 1))
    falling = (right - bins) / np.maximum(right - middle, 1)
    inside = np.where((bins >= left) & (bins <= middle), rising, 0.0)
    table = np.where((bins >= middle) & (bins < right), falling, inside)
    dtype = element_type(int(site.attribute("output_datatype", 1)))
    return (site.constant(table.astype(dtype.numpy), dtype),)
