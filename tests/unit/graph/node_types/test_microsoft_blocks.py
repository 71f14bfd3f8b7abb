"""Weights in blocks of few bits, against NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.dtypes import DType
from tests.support import onnx_models
from tests.support.cross import AVX2, WIDE, plain
from tests.support.graphs import by_reference
from tests.support.onnx_models import integers, model, node, random, value

run = partial(onnx_models.run, domain="com.microsoft")


def _packed(q: Any, bits: int) -> Any:
    """Numbers of few bits in bytes, each row by itself."""
    each = 8 // bits
    rows = np.pad(q, ((0, 0), (0, -q.shape[1] % each))).reshape(q.shape[0], -1, each)
    return (rows << (np.arange(each) * bits)).sum(-1).astype(np.uint8)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["packed", "floats", "none"])
@pytest.mark.parametrize("k", [64, 80])
def test_products_with_weights_in_blocks(bits: int, zeros: str, k: int) -> None:
    n, block = 6, 32
    blocks = -(-k // block)
    x = random(2, 3, k)
    q = integers(n, blocks * block, low=0, high=2**bits, seed=1)
    scales, z = random(n, blocks, seed=2), integers(n, blocks, low=0, high=2**bits, seed=3)
    if zeros == "none":
        z = np.full((n, blocks), 2 ** (bits - 1))
    weights = ((q - np.repeat(z, block, 1)) * np.repeat(scales, block, 1))[:, :k]
    middle = {"packed": [_packed(z, bits)], "floats": [z.astype(np.float32)], "none": []}[zeros]
    given = (x, _packed(q, bits).reshape(n, blocks, -1), scales, *middle)
    made = run("MatMulNBits", *given, N=n, K=k, bits=bits, block_size=block, constants=range(1, len(given)))
    np.testing.assert_allclose(made, x @ weights.T, rtol=1e-4, atol=1e-3 * 2**bits)


def _rounded(x: Any, block: int) -> Any:
    """Rows whose blocks are bytes times a scale."""
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % block)]).reshape(*x.shape[:-1], -1, block)
    scale = np.abs(padded).max(-1, keepdims=True) / 127
    return (np.rint(padded / np.where(scale == 0, 1, scale)) * scale).reshape(*x.shape[:-1], -1)[..., : x.shape[-1]]


WITH_DOTS, WITHOUT = plain("sapphirerapids", frozenset((*AVX2, *WIDE))), plain("haswell", frozenset(AVX2))


@pytest.mark.parametrize(
    ("target", "bits", "zeros", "k", "n"),
    [
        (WITH_DOTS, 4, "none", 64, 80),
        (WITH_DOTS, 4, "packed", 80, 64),
        (WITH_DOTS, 2, "packed", 80, 16),
        (WITH_DOTS, 8, "floats", 80, 32),
        (WITH_DOTS, 4, "none", 64, 24),
        (WITHOUT, 4, "none", 64, 80),
    ],
)
def test_what_they_multiply_is_bytes_where_a_node_allows_that(
    target: ms.Target, bits: int, zeros: str, k: int, n: int
) -> None:
    """And where the CPU has instructions for it, and there are whole vectors of results."""
    block = 32
    blocks = -(-k // block)
    x, q = random(2, 3, k), integers(n, blocks * block, low=0, high=2**bits, seed=1)
    x[0, 0, :block] = 0
    scales, z = random(n, blocks, seed=2), integers(n, blocks, low=0, high=2**bits, seed=3)
    if zeros == "none":
        z = np.full((n, blocks), 2 ** (bits - 1))
    weights = ((q - np.repeat(z, block, 1)) * np.repeat(scales, block, 1))[:, :k]
    middle = {"packed": [_packed(z, bits)], "floats": [z.astype(np.float32)], "none": []}[zeros]
    given = (_packed(q, bits).reshape(n, blocks, -1), scales, *middle)
    said = {"N": n, "K": k, "bits": bits, "block_size": block, "accuracy_level": 4}
    product = node("MatMulNBits", " ".join("xqsz"[: 1 + len(given)]), "y", domain="com.microsoft", **said)
    constants = dict(zip("qsz", given, strict=False))
    made = model([product], [value("x", x)], ["y"], constants, domains=["com.microsoft"])
    net = ms.load_onnx(made, target=target)
    in_bytes = target is WITH_DOTS and n % 16 == 0
    assert any(type_.dtype is DType.I8 for type_ in net.graph.types.values()) == in_bytes
    expected = (_rounded(x, block) if in_bytes else x) @ weights.T
    np.testing.assert_allclose(by_reference(net.graph, {"x": x})[0], expected, rtol=1e-4, atol=1e-3 * 2**bits)


def test_a_bias_is_added() -> None:
    x, q, scales, bias = random(3, 32), _packed(integers(6, 32, low=0, high=16), 4), random(6, 1), random(6, seed=4)
    known = {"N": 6, "K": 32, "block_size": 32}
    made = run("MatMulNBits", x, q.reshape(6, 1, 16), scales, None, None, bias, constants=(1, 2, 5), **known)
    without = run("MatMulNBits", x, q.reshape(6, 1, 16), scales, constants=(1, 2), **known)
    np.testing.assert_allclose(made, without + bias, atol=1e-5)


def test_what_cannot_be_is_refused_with_a_reason() -> None:
    x, q, scales = random(3, 32), np.zeros((6, 1, 16), np.uint8), random(6, 1)
    with pytest.raises(ms.RefusedModel, match="96 bytes and 6 scales are no 6 rows of 32 numbers of 8 bits"):
        run("MatMulNBits", x, q, scales, N=6, K=32, bits=8, block_size=32, constants=(1, 2))
    with pytest.raises(ms.RefusedModel, match="packed for a GPU"):
        run("MatMulNBits", x, q, scales, N=6, K=32, weight_prepacked=1, block_size=32, constants=(1, 2))
    with pytest.raises(ms.RefusedModel, match="`g_idx`"):
        run("MatMulNBits", x, q, scales, None, np.zeros(32, np.int32), N=6, K=32, block_size=32, constants=(1, 2))
    with pytest.raises(ms.RefusedModel, match="of 3 bits"):
        run("MatMulNBits", x, q, scales, N=6, K=32, bits=3, block_size=32, constants=(1, 2))


def test_rows_of_a_table_in_blocks() -> None:
    q, scales, z = integers(9, 48, low=0, high=16), random(9, 3), integers(9, 3, low=0, high=16, seed=1)
    index = integers(2, 5, low=0, high=9, seed=2, dtype=np.int64)
    table = (q - np.repeat(z, 16, 1)) * np.repeat(scales, 16, 1)
    given = (_packed(q, 4), index, scales, _packed(z, 4))
    made = run("GatherBlockQuantized", *given, block_size=16, constants=(0, 2, 3))
    np.testing.assert_allclose(made, table[index], rtol=1e-5)
    with pytest.raises(ms.RefusedModel, match="blocks are not along the last dimension"):
        run("GatherBlockQuantized", *given, block_size=16, quantize_axis=0, constants=(0, 2, 3))
