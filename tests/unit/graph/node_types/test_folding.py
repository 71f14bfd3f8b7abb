"""Images of overlapping blocks, against loops of NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import random, run

IMAGE, BLOCK = (7, 6), (3, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    "how",
    [{}, {"strides": (2, 3)}, {"pads": (1, 0, 2, 1)}, {"dilations": (2, 3)}, {"strides": (2, 1), "pads": (0, 1, 1, 2)}],
    ids=str,
)
def test_each_element_is_the_sum_of_the_blocks_on_it(how: dict[str, tuple[int, ...]], dtype: Any) -> None:
    strides, pads = how.get("strides", (1, 1)), how.get("pads", (0, 0, 0, 0))
    dilations = how.get("dilations", (1, 1))
    whole = [size + pads[d] + pads[2 + d] for d, size in enumerate(IMAGE)]
    counts = [(whole[d] - dilations[d] * (BLOCK[d] - 1) - 1) // strides[d] + 1 for d in range(2)]
    x = random(2, 3 * 6, counts[0] * counts[1]).astype(dtype)
    blocks, padded = x.reshape(2, 3, *BLOCK, *counts), np.zeros((2, 3, *whole))
    for r, s, i, j in product(*map(range, (*BLOCK, *counts))):
        padded[:, :, i * strides[0] + r * dilations[0], j * strides[1] + s * dilations[1]] += blocks[:, :, r, s, i, j]
    wanted = padded[:, :, pads[0] : pads[0] + IMAGE[0], pads[1] : pads[1] + IMAGE[1]]
    found = run("Col2Im", x, np.int64(IMAGE), np.int64(BLOCK), constants=[1, 2], **how)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-3 if dtype is np.float16 else 1e-5, atol=1e-5)


def test_blocks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ms.RefusedModel, match=r"is not \(5, 5\) blocks of \(3, 2\)"):
        run("Col2Im", random(1, 6, 24), np.int64(IMAGE), np.int64(BLOCK), constants=[1, 2])
