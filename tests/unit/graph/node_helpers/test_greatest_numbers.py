"""The most that whole numbers can be, as loops have it of which a call says how many steps there are."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from tests.support.graphs import network

# What is in the room for `k`, a number of steps that these nodes compute of `n`.
BOUNDED = {
    "k = Min(n, six)": 6,
    "row = Reshape(n, one) k1 = Min(row, sixes, ten) k = Squeeze(k1)": 6,
    "k = Clip(n, zero, six)": 6,
    "low = Min(n, six) k = Max(low, ten)": 10,
    "low = Min(n, six) high = Min(n, ten) k = Where(on, low, high)": 10,
    "small = Cast<to = 6>(n) low = Min(small, narrow) k = Cast<to = 7>(low)": 6,
    "k = Min(n, less)": 0,
}
OPEN = [
    "k = Identity(n)",
    "k = Max(n, six)",
    "low = Min(n, six) k = Where(on, low, n)",
    "low = Min(n, six) k = Neg(low)",
    "low = Min(n, six) small = Cast<to = 6>(low) wide = Cast<to = 7>(small) k = Mul(wide, wide)",
]


def counted(nodes: str) -> ms.Network:
    return network(
        f"""m (int64 n, bool on, float[2] x) => (y, seen)
          <int64 six = {{6}}, int64[1] sixes = {{6}}, int64 ten = {{10}}, int64 zero = {{0}}, int64 less = {{-2}},
           int32 narrow = {{6}}, int64[1] one = {{1}}, bool yes = {{1}}> {{
            {nodes}
            y, seen = Loop(k, yes, x) <body = step (int64 i, bool c, float[2] a) => (bool go, float[2] b, float[2] s) {{
                go = Identity(c)
                b = Add(a, a)
                s = Identity(b)
            }}>
        }}"""
    )


@pytest.mark.parametrize("nodes", BOUNDED)
def test_a_number_of_steps_that_a_call_says_is_bounded_by_what_computes_it(nodes: str) -> None:
    net, most, x = counted(nodes), BOUNDED[nodes], np.float32([1, -3])
    assert net.outputs["seen"].shape == (most, 2)
    for n in (0, 1, 5, 6, 100, -3):
        y, seen = net(np.array(n), np.array(True), x)
        steps = most if "Max" in nodes else max(min(n, 6, most), 0)
        np.testing.assert_array_equal(y, x * 2**steps)
        np.testing.assert_array_equal(seen, [x * 2**step for step in range(1, steps + 1)] or np.zeros((0, 2)))


@pytest.mark.parametrize("nodes", OPEN)
def test_steps_that_nothing_bounds_are_refused_with_what_to_do(nodes: str) -> None:
    with pytest.raises(ms.RefusedModel, match=r"many there are at most: bound that number in the model by a constant"):
        counted(nodes)
