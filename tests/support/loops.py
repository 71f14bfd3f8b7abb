"""Networks with loops that data end, as texts of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

import metasched as ms
from tests.support.graphs import network

CELLS, WIDTH = 12, 8
_RNG = np.random.default_rng(0)
WEIGHT = _RNG.standard_normal((WIDTH, WIDTH)).round(3).astype(np.float32)


def newton_text(most: int = 40) -> str:
    """Square roots by Newton's iteration until they change by no more than 1e-5; and what they were, step by step."""
    return f"""m (float[4] a) => (root, seen) <int64 most = {{{most}}}, bool yes = {{1}}, float tiny = {{0.00001}}> {{
        root, seen = Loop(most, yes, a) <body = step
          (int64 i, bool c, float[4] x) => (bool go, float[4] y, float[4] z) {{
            two = Constant<value_float = 2.0>()
            quotient = Div(a, x)
            sum = Add(x, quotient)
            y = Div(sum, two)
            change = Sub(x, y)
            size = Abs(change)
            largest = ReduceMax<keepdims=0>(size)
            go = Greater(largest, tiny)
            z = Identity(y)
        }}>
    }}"""


def newton(most: int = 40) -> ms.Network:
    """The network of `newton_text`."""
    return network(newton_text(most))


def newton_by_numpy(a: Any, most: int = 40) -> tuple[Any, Any]:
    """What `newton` computes."""
    x, seen = a, []
    for _ in range(most):
        before, x = x, (x + a / x) / np.float32(2)
        seen.append(x)
        if not np.abs(before - x).max() > np.float32(0.00001):
            break
    return x, np.array(seen)


def decoder() -> ms.Network:
    """A toy decoder: steps write a row of its cache and give out a token, until that is `last` or there is no room."""
    values = ", ".join(map(str, WEIGHT.reshape(-1)))
    return network(
        f"""m (float[1, {WIDTH}] x, int64 pos, float[1, {CELLS}, {WIDTH}] cache, int64 last) => (tokens, after, end)
          <float[{WIDTH}, {WIDTH}] w = {{{values}}}, int64 most = {{20}}, bool yes = {{1}}> {{
            end, y, after, tokens = Loop(most, yes, pos, x, cache) <body = step
              (int64 i, bool c, int64 at, float[1, {WIDTH}] x, float[1, {CELLS}, {WIDTH}] old)
              => (bool go, int64 next, float[1, {WIDTH}] y, float[1, {CELLS}, {WIDTH}] new, int64[1] token) {{
                one = Constant<value_int = 1>()
                row_shape = Constant<value_ints = [1, 1, {WIDTH}]>()
                start_shape = Constant<value_ints = [1]>()
                cells = Constant<value_int = {CELLS}>()
                axis = Constant<value_ints = [1]>()
                product = MatMul(x, w)
                row = Reshape(product, row_shape)
                start = Reshape(at, start_shape)
                new = TensorScatter<axis = 1>(old, row, start)
                mean = ReduceMean<keepdims = 0>(new, axis)
                z = Add(mean, product)
                y = Tanh(z)
                token = ArgMax<axis = 1, keepdims = 0>(y)
                next = Add(at, one)
                room = Less(next, cells)
                other = Equal(token, last)
                another = Not(other)
                flag = Squeeze(another)
                go = And(room, flag)
            }}>
        }}""",
        opset=24,
    )


def decoded_by_numpy(x: Any, at: int, cache: Any, last: int) -> tuple[Any, Any, Any]:
    """What `decoder` computes."""
    cache, tokens = cache.copy(), []
    for _ in range(20):
        product = x @ WEIGHT
        cache[:, at] = product
        x = np.tanh(cache.mean(1) + product)
        tokens.append([int(x.argmax())])
        at += 1
        if at >= CELLS or tokens[-1] == [last]:
            break
    return np.array(tokens), cache, np.array(at)


def decoder_inputs(at: int = 2, last: int = 7) -> tuple[Any, Any, Any, Any]:
    """Arrays for `decoder`."""
    rng = np.random.default_rng(at)
    x = rng.standard_normal((1, WIDTH)).astype(np.float32)
    return x, np.array(at), rng.standard_normal((1, CELLS, WIDTH)).astype(np.float32), np.array(last)


def nested() -> ms.Network:
    """A loop of `n` steps in one that ends by data; what the inner one needs of the outer's step is read there."""
    return network(
        """m (int64 n, float[4] a, float least) => (x, total, steps)
          <int64 most = {6}, bool yes = {1}, float zero = {0.0}, float half = {0.5}> {
            x, total, steps = Loop(most, yes, a, zero) <body = outer
              (int64 i, bool c, float[4] p, float sum) => (bool go, float[4] q, float sum2, float[4] change) {
                outer = Cast<to = 1>(i)
                q, inner_sum = Loop(n, yes, p, sum) <body = inner
                  (int64 j, bool d, float[4] r, float s) => (bool on, float[4] r2, float s2) {
                    inner = Cast<to = 1>(j)
                    number = Add(inner, outer)
                    halved = Mul(r, half)
                    r2 = Add(halved, number)
                    largest = ReduceMax<keepdims = 0>(r2)
                    s2 = Add(s, largest)
                    on = Less(largest, s2)
                }>
                sum2 = Identity(inner_sum)
                change = Sub(q, p)
                size = Abs(change)
                most_changed = ReduceMax<keepdims = 0>(size)
                go = Greater(most_changed, least)
            }>
        }"""
    )


def nested_by_numpy(n: int, a: Any, least: float) -> tuple[Any, Any, Any]:
    """What `nested` computes."""
    x, total, changes = a, np.float32(0), []
    for i in range(6):
        before = x
        for j in range(n):
            x = x * np.float32(0.5) + np.float32(i + j)
            total = total + x.max()
            if not x.max() < total:
                break
        changes.append(x - before)
        if not np.abs(changes[-1]).max() > least:
            break
    return x, total, np.array(changes)


# How a step of `counting` may make `goes` of `small` and `b`: nodes in the body whose own bodies decide it.
GOES_ON_BY = {
    "a branch": """goes = If(small) <then_branch = t () => (bool u) { u = Less(b, five) },
        else_branch = e () => (bool v) { v = Identity(small) }>""",
    "what is a branch's": """either = If(small) <then_branch = t () => (bool u) { u = Less(b, five) },
        else_branch = e () => (bool v) { v = Identity(small) }>
        goes = Identity(either)""",
    "an inner loop": """goes = Loop(twice, small, small)
        <body = inner (int64 j, bool d, bool f) => (bool g, bool h) { g = Identity(f) h = Less(b, five) }>""",
}


def counting(goes_on: str, given_out: bool = False) -> ms.Network:
    """One added to a number until it is 5 or more; `given_out`: and after each step whether there is another."""
    seen, also, copied = (", seen", ", bool s", "s = Identity(goes)") if given_out else ("", "", "")
    return network(
        f"""m (float x) => (y{seen}) <int64 most = {{100}}, int64 twice = {{2}}, bool yes = {{1}}, float one = {{1.0}},
          float ten = {{10.0}}, float five = {{5.0}}> {{
            y{seen} = Loop(most, yes, x) <body = step (int64 i, bool c, float a) => (bool goes, float b{also}) {{
                b = Add(a, one)
                small = Less(b, ten)
                {GOES_ON_BY[goes_on]}
                {copied}
            }}>
        }}"""
    )


def counted_by_numpy(x: float) -> tuple[float, list[bool]]:
    """What `counting` computes."""
    seen = [True]
    while seen[-1]:
        x += 1
        seen.append(x < 5)
    return x, seen[1:]
