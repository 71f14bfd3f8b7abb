"""Models of images whose sizes `h` and `w` are multiples of a number: they halve them and join what meets again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.parser
from onnx import numpy_helper

_HEAD = '<ir_version: 10, opset_import: ["": 22]> m '
_HALF = "<kernel_shape = [2, 2], strides = [2, 2]>"
_WEIGHTS: Mapping[str, tuple[int, ...]] = {
    "w22": (2, 2, 3, 3), "w24": (2, 4, 3, 3), "t22": (2, 2, 2, 2), "t42": (4, 2, 4, 4), "l22": (2, 2, 1, 1),
    "d44": (4, 4), "w82": (2, 8, 3, 3), "d163": (16, 3),
}  # fmt: skip
_NUMBERS: Mapping[str, Any] = {
    "twice": np.array([1, 1, 2, 2], np.float32), "i1": np.array([1]), "i2": np.array([2]), "i3": np.array([3]),
    "n1": np.array([1]), "n2": np.array([2]), "n4": np.array([4]), "n8": np.array([8]),
    "windows": np.array([-1, 64, 4]), "every": np.array([2, 2]), "inner": np.array([1, 2]), "end": np.array([99, 99]),
    "at00": np.array([0, 0]), "at10": np.array([1, 0]), "at01": np.array([0, 1]), "at11": np.array([1, 1]),
}  # fmt: skip

# Each with the number that its sizes are multiples of.
STEPPED: Mapping[str, tuple[int, str]] = {
    "U-Net of three levels": (8, f"""(float[1, 2, h, w] x) => (y) {{
        a = Conv<pads = [1, 1, 1, 1]>(x, w22)
        pa = MaxPool{_HALF}(a)
        b = Conv<pads = [1, 1, 1, 1]>(pa, w22)
        pb = MaxPool{_HALF}(b)
        c = Conv<pads = [1, 1, 1, 1]>(pb, w22)
        pc = AveragePool{_HALF}(c)
        uc = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(pc, , twice)
        jc = Concat<axis = 1>(uc, c)
        d = Conv<pads = [1, 1, 1, 1]>(jc, w24)
        ub = Resize<mode = "nearest">(d, , twice)
        jb = Concat<axis = 1>(ub, b)
        e = Conv<pads = [1, 1, 1, 1]>(jb, w24)
        ua = Resize<mode = "linear">(e, , twice)
        y = Concat<axis = 1>(ua, a)
    }}"""),
    "strided convolutions and transposed ones": (4, """(float[1, 2, h, w] x) => (y) {
        a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w22)
        b = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(a, w22)
        c = ConvTranspose<strides = [2, 2]>(b, t22)
        d = Concat<axis = 1>(a, c)
        e = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(d, t42)
        y = Concat<axis = 1>(e, x)
    }"""),
    "resized to the size of another feature": (4, f"""(float[1, 2, h, w] x) => (y) {{
        a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w22)
        p = MaxPool{_HALF}(a)
        s = Shape(a)
        r = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(p, , , s)
        y = Add(r, a)
    }}"""),
    "pooled, and put back by positions": (2, f"""(float[1, 2, h, w] x) => (y) {{
        p, at = MaxPool{_HALF}(x)
        q = Relu(p)
        u = MaxUnpool{_HALF}(q, at)
        y = Concat<axis = 1>(u, x)
    }}"""),
    "feature pyramid": (8, """(float[1, 2, h, w] x) => (y, p1, p2) {
        f0 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w22)
        f1 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(f0, w22)
        f2 = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(f1, w22)
        p2 = Conv(f2, l22)
        m1 = Conv(f1, l22)
        u1 = Resize<mode = "nearest">(p2, , twice)
        p1 = Add(u1, m1)
        m0 = Conv(f0, l22)
        u0 = Resize<mode = "nearest">(p1, , twice)
        y = Add(u0, m0)
    }"""),
    "attention in windows of eight": (8, """(float[1, h, w, 4] x) => (y) {
        s = Shape(x)
        rows = Gather(s, i1)
        columns = Gather(s, i2)
        r = Div(rows, n8)
        c = Div(columns, n8)
        apart = Concat<axis = 0>(n1, r, n8, c, n8, n4)
        x6 = Reshape(x, apart)
        xt = Transpose<perm = [0, 1, 3, 2, 4, 5]>(x6)
        win = Reshape(xt, windows)
        q = MatMul(win, d44)
        k = Transpose<perm = [0, 2, 1]>(win)
        scores = MatMul(q, k)
        p = Softmax(scores)
        o = MatMul(p, win)
        together = Concat<axis = 0>(n1, r, c, n8, n8, n4)
        o6 = Reshape(o, together)
        ot = Transpose<perm = [0, 1, 3, 2, 4, 5]>(o6)
        back = Reshape(ot, s)
        y = Add(back, x)
    }"""),
    "pixels shuffled": (2, """(float[1, 2, h, w] x) => (y) {
        d = SpaceToDepth<blocksize = 2>(x)
        e = Sigmoid(d)
        u = DepthToSpace<blocksize = 2, mode = "CRD">(e)
        y = Concat<axis = 1>(u, x)
    }"""),
    "pixels shuffled by views": (2, """(float[1, 2, h, w] x) => (y) {
        s = Shape(x)
        rows = Gather(s, i2)
        columns = Gather(s, i3)
        r = Div(rows, n2)
        c = Div(columns, n2)
        apart = Concat<axis = 0>(n1, n2, r, n2, c, n2)
        x6 = Reshape(x, apart)
        xt = Transpose<perm = [0, 1, 3, 5, 2, 4]>(x6)
        channels = Concat<axis = 0>(n1, n8, r, c)
        d = Reshape(xt, channels)
        y = Conv<pads = [1, 1, 1, 1]>(d, w82)
    }"""),
    "patches merged": (2, """(float[1, h, w, 4] x) => (y) {
        a = Slice(x, at00, end, inner, every)
        b = Slice(x, at10, end, inner, every)
        c = Slice(x, at01, end, inner, every)
        d = Slice(x, at11, end, inner, every)
        m = Concat<axis = 3>(a, b, c, d)
        y = MatMul(m, d163)
    }"""),
}  # fmt: skip


def stepped_model(name: str) -> Any:
    """One of these models, with weights at random."""
    made = onnx.parser.parse_model(_HEAD + STEPPED[name][1])
    rng = np.random.default_rng(0)
    weights = {key: (rng.random(shape) - 0.5).astype(np.float32) for key, shape in _WEIGHTS.items()}
    used = {name for node in made.graph.node for name in node.input}
    made.graph.initializer.extend(
        numpy_helper.from_array(array, key) for key, array in {**weights, **_NUMBERS}.items() if key in used
    )
    return made


def image(made: Any, h: int, w: int) -> np.ndarray:
    """An input at random of such a model."""
    named = {"h": h, "w": w}
    dims = made.graph.input[0].type.tensor_type.shape.dim
    shape = tuple(named[dim.dim_param] if dim.dim_param else dim.dim_value for dim in dims)
    return np.random.default_rng(h * 1000 + w).standard_normal(shape).astype(np.float32)
