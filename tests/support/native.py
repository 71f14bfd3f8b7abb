"""Machine code against the reference, for tests of what a primitive makes of memory."""

from __future__ import annotations

import numpy as np

from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Func
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.target import Target


def native_agrees(before: Func, after: Func, seed: int = 0) -> None:
    """The compiled `after` gives what the reference gives for `before`, on integer-valued inputs."""
    rng = np.random.default_rng(seed)
    args = []
    for name in before.order:
        buffer = before.buffer(name)
        shape = tuple(as_int(n) or 0 for n in buffer.shape)
        args.append(rng.integers(-4, 5, shape).astype(buffer.dtype.numpy))
    expected, got = reference(before)(*args), Kernel(build(after, Target.detect(threads=2)))(*args)
    for x, y in zip(*(r if isinstance(r, tuple) else (r,) for r in (expected, got)), strict=True):
        np.testing.assert_array_equal(x, y)
