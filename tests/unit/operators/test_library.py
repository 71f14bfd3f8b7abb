"""Every operator of the library agrees with an independent implementation, in both references and natively."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.dtypes import DType, is_float
from metasched.ir.integers.affine import as_int
from metasched.operators.files import library_names
from metasched.reference.execution import reference
from tests.support.independent import EXPECTED, Array

Params = dict[str, int | str]


def at(text: str) -> Params:
    """`L=13 T=bf16` as parameters."""
    pairs = (setting.split("=") for setting in text.split())
    return {name: int(value) if value.isdigit() else value for name, value in pairs}


SHAPES: dict[str, list[Params]] = {
    "conv1d_nlc": [
        at("L=13 CI=6 CO=4 S=2"),
        at("N=2 L=7 CI=4 CO=6 R=2 P=0 D=3 G=2"),
    ],
    "conv1d_ncl": [
        at("L=13 CI=6 CO=4 S=2"),
        at("N=2 L=7 CI=4 CO=6 R=2 P=0 D=3 G=2"),
    ],
    "conv2d_nhwc": [
        at("H=7 W=13 CI=3 CO=5 S=2 R=3"),
        at("N=2 H=9 W=7 CI=4 CO=6 R=2 P=2 D=2 G=2"),
        at("H=5 W=5 CI=2 CO=3 R=1 P=0"),
    ],
    "conv2d_nchw": [
        at("H=7 W=13 CI=3 CO=5 S=2"),
        at("N=2 H=9 W=7 CI=4 CO=6 R=2 P=2 D=2 G=2"),
    ],
    "conv3d_ndhwc": [
        at("Z=3 H=5 W=7 CI=3 CO=2 S=2"),
        at("Z=4 H=5 W=4 CI=4 CO=2 R=2 P=1 D=2 G=2"),
    ],
    "conv3d_ncdhw": [
        at("Z=3 H=5 W=7 CI=3 CO=2 S=2"),
        at("Z=4 H=5 W=4 CI=4 CO=2 R=2 P=1 D=2 G=2"),
    ],
    "depthwise_conv2d_nhwc": [
        at("H=7 W=13 C=5"),
        at("N=2 H=9 W=8 C=3 R=2 S=3 P=2 D=2"),
    ],
    "depthwise_conv2d_nchw": [
        at("H=7 W=13 C=5"),
        at("N=2 H=9 W=8 C=3 R=2 S=3 P=2 D=2"),
    ],
    **{
        f"conv1d_transpose_{layout}": [
            at("L=7 CI=3 CO=5"),
            at("N=2 L=5 CI=4 CO=6 R=3 S=3 P=0 D=2 G=2 OPAD=1"),
            at("L=6 R=5 S=2 P=2 CI=1 CO=2"),
            at("L=7 R=2 S=2 P=3 CI=1 CO=2"),  # more padding than filter: borders of the input count for nothing
        ]
        for layout in ("nlc", "ncl")
    },
    **{
        f"conv2d_transpose_{layout}": [
            at("H=2 W=5 CI=4 CO=3"),
            at("N=2 H=3 W=2 CI=6 CO=4 R=2 S=3 P=2 D=2 G=2 OPAD=2"),
            at("H=4 W=4 CI=2 CO=2 R=3 S=1 P=0"),
        ]
        for layout in ("nhwc", "nchw")
    },
    **{
        f"conv3d_transpose_{layout}": [
            at("Z=2 H=1 W=3 CI=3 CO=2 R=3 OPAD=1"),
            at("Z=3 H=2 W=1 CI=2 CO=2 R=2 S=1 P=0 D=2 G=2"),
        ]
        for layout in ("ndhwc", "ncdhw")
    },
    "capsule_conv2d_nhwc": [
        at("H=5 W=7 CI=3 CO=2 V=2"),
        at("H=4 W=5 CI=2 CO=4 V=2 S=1 R=2 P=1 D=3 G=2"),
    ],
    "conv2d_bn_relu_nhwc": [
        at("H=9 W=7 CI=3 CO=5 R=3 P=1"),
        at("H=7 W=7 CI=4 CO=4 R=3 S=1 P=2 D=2 G=2"),
    ],
    "conv2d_bn_relu_nchw": [
        at("H=9 W=7 CI=3 CO=5 R=3 P=1"),
        at("H=5 W=4 CI=2 CO=4 R=2 S=1 P=2 D=2 G=2"),
    ],
    "matmul_nn": [at("M=7 N=13 K=11"), at("M=1 N=16 K=3")],
    **{f"matmul_{t}": [at("M=7 N=13 K=11")] for t in ("nt", "tn", "tt")},
    **{f"batch_matmul_{t}": [at("BATCH=3 M=7 N=5 K=13")] for t in ("nn", "nt", "tn", "tt")},
    "transpose_batch_matmul": [at("L=7 HEADS=3 D=5"), at("BATCH=2 L=4 HEADS=1 D=13")],
    "dense_bias_relu": [at("M=7 N=13 K=5")],
    "dense_bias_gelu": [at("M=7 N=13 K=5")],
    "softmax": [at("M=7 N=13"), at("M=3 N=1")],
    "log_softmax": [at("M=7 N=13")],
    "layer_norm": [at("M=7 N=13")],
    "rms_norm": [at("M=7 N=13")],
    "batch_norm_nhwc": [at("N=3 H=5 W=7 C=5")],
    "batch_norm_nchw": [at("N=3 H=5 W=7 C=5")],
    "norm": [at("BATCH=3 M=7 N=13")],
    "max_pool1d_nlc": [at("L=13 C=5"), at("N=2 L=9 C=1 S=1 P=2 D=3")],
    **{
        f"max_pool2d_{layout}": [at("H=13 W=7 C=3"), at("N=2 H=8 W=9 C=2 R=2 S=1 P=0"), at("H=9 W=7 C=3 P=2 D=2")]
        for layout in ("nhwc", "nchw")
    },
    "max_pool3d_ndhwc": [at("Z=3 H=5 W=7 C=2"), at("N=2 Z=4 H=5 W=2 C=3 R=2 S=2 P=2 D=2")],
    "avg_pool1d_nlc": [at("L=13 C=5"), at("N=2 L=9 C=1 R=3 S=1 P=2 COUNT_PAD=0")],
    **{
        f"avg_pool2d_{layout}": [
            at("H=13 W=7 C=3"),
            at("N=2 H=9 W=8 C=2 R=3 S=2 P=1"),
            at("N=2 H=9 W=8 C=2 R=3 S=2 P=1 COUNT_PAD=0"),
        ]
        for layout in ("nhwc", "nchw")
    },
    "avg_pool3d_ndhwc": [at("Z=4 H=5 W=7 C=2 P=1"), at("Z=3 H=5 W=2 C=1 R=3 S=2 P=2 COUNT_PAD=0")],
    "global_avg_pool1d_nlc": [at("N=2 L=7 C=13")],
    "global_avg_pool2d_nhwc": [at("N=2 H=7 W=5 C=13")],
    "global_avg_pool2d_nchw": [at("N=2 H=7 W=5 C=13")],
    "global_avg_pool3d_ndhwc": [at("N=2 Z=3 H=7 W=5 C=13")],
    "attention": [at("L=7 M=13 D=5 E=3")],
    "batch_attention": [at("BATCH=2 HEADS=3 L=5 M=7 D=4 E=3")],
    "bias_gelu": [at("M=7 N=13")],
    "bias_gelu_tanh": [at("M=7 N=13")],
    "swiglu": [at("M=7 N=13")],
    "scale_shift_add_relu": [at("M=7 N=13")],
    "transpose": [at("M=7 N=13")],
    "nchw_to_nhwc": [at("N=2 C=3 H=7 W=5")],
    "concat": [at("ROWS=7 N=5 M=13")],
    "pad2d_nhwc": [at("H=7 W=5 C=3 TOP=0 BOTTOM=2 LEFT=3 RIGHT=1")],
    "pad2d_nchw": [at("H=7 W=5 C=3 TOP=0 BOTTOM=2 LEFT=3 RIGHT=1")],
    "cumsum": [at("M=5 N=13")],
    "argmax": [at("M=5 N=13"), at("M=3 N=70")],
    "embedding": [at("N=7 ROWS=13 D=5"), at("N=1 ROWS=9 D=20")],
    "gather_sum": [at("N=7 BAG=3 ROWS=13 D=5")],
    "box_blur": [at("H=7 W=13"), at("H=5 W=4 R=2")],
}
CASES = [pytest.param(name, p, id=f"{name}-{n}") for name, shapes in SHAPES.items() for n, p in enumerate(shapes)]

TYPES: list[tuple[str, Params]] = [
    ("matmul_nn", at("M=7 N=13 K=20 T=i8 ACC=i32")),
    ("matmul_nt", at("M=7 N=13 K=20 T=u8 U=i8 ACC=i32")),
    ("matmul_nn", at("M=7 N=13 K=20 T=bf16 ACC=f32")),
    ("matmul_tn", at("M=7 N=13 K=20 T=f64")),
    ("matmul_nn", at("M=7 N=13 K=20 T=f16 ACC=f32")),
    ("conv2d_nhwc", at("H=7 W=5 CI=4 CO=6 T=i8 ACC=i32")),
    ("conv2d_nhwc", at("H=7 W=5 CI=4 CO=6 T=u8 U=i8 ACC=i32 G=2")),
    ("conv2d_nchw", at("H=7 W=5 CI=4 CO=6 T=bf16 ACC=f32")),
    ("softmax", at("M=7 N=13 T=bf16 ACC=f32")),
    ("layer_norm", at("M=7 N=13 T=f16 ACC=f32")),
    ("attention", at("L=7 M=5 D=8 E=4 T=bf16 ACC=f32")),
    ("avg_pool2d_nhwc", at("H=8 W=6 C=3 T=bf16 ACC=f32")),
    ("max_pool2d_nhwc", at("H=8 W=6 C=3 T=f16")),
    ("avg_pool2d_nchw", at("H=8 W=6 C=3 R=3 P=1 COUNT_PAD=0 T=f16 ACC=f32")),
    ("avg_pool1d_nlc", at("L=9 C=3 R=3 P=1 COUNT_PAD=0 T=f64")),
    ("global_avg_pool2d_nchw", at("H=5 W=6 C=3 T=bf16 ACC=f32")),
    ("max_pool2d_nhwc", at("H=8 W=6 C=3 T=i8")),
    ("max_pool2d_nchw", at("H=8 W=6 C=3 T=i16 P=2 D=2")),
    ("max_pool3d_ndhwc", at("Z=3 H=4 W=5 C=3 T=bf16")),
    ("conv1d_transpose_ncl", at("L=5 CI=4 CO=6 T=u8 U=i8 ACC=i32 G=2 D=3")),
    ("conv2d_transpose_nhwc", at("H=3 W=2 CI=4 CO=2 T=i8 ACC=i32 R=3 G=2 OPAD=1")),
    ("conv2d_transpose_nchw", at("H=3 W=2 CI=4 CO=2 R=3 T=bf16 ACC=f32")),
    ("conv3d_transpose_ndhwc", at("Z=2 H=2 W=3 CI=4 CO=2 R=2 T=i8 ACC=i32")),
    ("capsule_conv2d_nhwc", at("H=3 W=4 CI=4 CO=2 V=2 R=2 T=i8 ACC=i32 G=2")),
    ("batch_norm_nchw", at("N=2 H=5 W=3 C=4 T=bf16 ACC=f32")),
    ("conv2d_bn_relu_nchw", at("H=7 W=5 CI=3 CO=4 R=3 P=1 T=f16 ACC=f32")),
    ("pad2d_nchw", at("H=3 W=5 C=2 T=u8")),
    ("pad2d_nchw", at("H=3 W=5 C=2 T=bool")),
    ("pad2d_nhwc", at("H=3 W=5 C=2 T=bool")),
    ("pad2d_nhwc", at("H=3 W=5 C=2 T=bf16")),
    ("swiglu", at("M=7 N=13 T=bf16")),
    ("cumsum", at("M=5 N=13 T=i16 ACC=i64")),
    ("concat", at("ROWS=5 N=3 M=4 T=bool")),
    ("embedding", at("N=7 ROWS=13 D=5 T=u8")),
    ("gather_sum", at("N=7 BAG=3 ROWS=13 D=5 T=bf16 ACC=f32")),
    ("argmax", at("M=5 N=13 T=i8")),
    ("argmax", at("M=5 N=13 T=bf16")),
]


def inputs(program: ms.Program) -> tuple[Any, ...]:
    """Random numbers for each argument; a scalar is a small positive one."""
    rng = np.random.default_rng(0)
    rows = int(dict(program.params).get("ROWS", 1))
    buffers = {b.name: b for b in program.inputs}
    out: list[Any] = []
    for name in program.func.order:
        buffer = buffers.get(name)
        if buffer is None:
            out.append(1e-3)
            continue
        shape = tuple(int(extent.value) for extent in buffer.shape)  # type: ignore[attr-defined]
        if name == "ids":
            out.append(rng.integers(0, rows, shape))
            continue
        if buffer.dtype.is_float:
            out.append(rng.standard_normal(shape).astype(buffer.dtype.numpy))
        else:
            out.append(
                rng.integers(0 if buffer.dtype in (DType.U8, DType.BOOL) else -9, 9, shape).astype(buffer.dtype.numpy)
            )
    return tuple(out)


def expected(name: str, params: Params, arguments: tuple[Any, ...]) -> Array | tuple[Array, ...]:
    program = operators.load(name, **params)
    wide = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype != np.int64 else a for a in arguments]
    found: Array | tuple[Array, ...] = EXPECTED[name](*wide, **dict(program.params))
    return found


def agrees(result: Array | tuple[Array, ...], wanted: Array | tuple[Array, ...]) -> None:
    results, wanteds = (x if isinstance(x, tuple) else (x,) for x in (result, wanted))
    for actual, want in zip(results, wanteds, strict=True):
        agrees_array(np.asarray(actual), np.asarray(want))


def agrees_array(actual: Array, wanted: Array) -> None:
    assert actual.shape == wanted.shape
    if not is_float(actual.dtype):
        np.testing.assert_array_equal(actual.astype(np.float64), wanted)
        return
    kind = next(d for d in DType if d.numpy == actual.dtype)
    # A few roundings of the type the result is stored in, a few hundred of what comes before.
    precision = {DType.BF16: 2e-2, DType.F16: 2e-3, DType.F32: 3e-5, DType.F64: 1e-12}[kind]
    np.testing.assert_allclose(actual.astype(np.float64), wanted, rtol=precision, atol=precision)


def drawn(program: ms.Program) -> ms.Trace:
    """A schedule of the default rules, its numbers drawn at random."""
    sketch = ms.space(program)[0]
    rows = sketch.sample(np.random.default_rng(0), 64)
    return sketch.trace_of(rows[np.flatnonzero(sketch.mask(rows))[0]])


def test_every_operator_is_tested() -> None:
    assert set(library_names()) == set(SHAPES) == set(EXPECTED)


@pytest.mark.parametrize(("name", "params"), CASES)
def test_agrees_with_numpy(name: str, params: Params) -> None:
    program = operators.load(name, **params)
    arguments = inputs(program)
    wanted = expected(name, params, arguments)
    agrees(ms.reference(program)(*arguments), wanted)
    agrees(ms.compile(program, trace=ms.Schedule(program).trace)(*arguments), wanted)


# The others have one with other element types, below.
@pytest.mark.parametrize("name", [name for name in SHAPES if name not in {other for other, _ in TYPES}])
def test_a_schedule_agrees_with_numpy(name: str) -> None:
    params = SHAPES[name][0]
    program = operators.load(name, **params)
    arguments = inputs(program)
    agrees(ms.compile(program, trace=drawn(program))(*arguments), expected(name, params, arguments))


@pytest.mark.parametrize(("name", "params"), TYPES, ids=[f"{n}-{p['T']}-{k}" for k, (n, p) in enumerate(TYPES)])
def test_other_element_types_agree_with_numpy(name: str, params: Params) -> None:
    program = operators.load(name, **params)
    arguments = inputs(program)
    wanted = expected(name, params, arguments)
    agrees(ms.reference(program)(*arguments), wanted)
    agrees(ms.compile(program, trace=drawn(program))(*arguments), wanted)


GROUPED = [name for name in SHAPES if " G=" in operators.library.source(name)]


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize(
    ("channels", "message"),
    [
        (at("CI=6 CO=4 G=4"), r"4 groups \(G\) do not divide CI=6\n"),
        (at("CI=4 CO=6 G=4"), r"4 groups \(G\) do not divide CO=6\n"),
    ],
    ids=["inputs", "outputs"],
)
def test_groups_divide_the_channels(name: str, channels: Params, message: str) -> None:
    """What is left over would be dropped."""
    with pytest.raises(ms.LanguageError, match=message) as caught:
        operators.load(name, **channels)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.hint == "with these channels, G may be 1, 2; or change CI and CO to multiples of 4"
    column = diagnostic.column - 1
    assert operators.source(name).splitlines()[diagnostic.line - 1][column:].startswith("G=1,")


def test_groups_that_are_no_number_are_said_by_the_language() -> None:
    with pytest.raises(ms.LanguageError, match="`G`"):
        operators.load("conv2d_nhwc", G="many")


AVERAGES = [name for name in SHAPES if name.startswith("avg_pool")]
MAXIMA = [name for name in SHAPES if name.startswith("max_pool")]
TRANSPOSED = [name for name in SHAPES if " OPAD=" in operators.library.source(name)]
LIMITS = [
    *(
        (
            name,
            at("R=2 S=2 P=2 COUNT_PAD=0"),
            at("R=2 S=2 P=1 COUNT_PAD=0"),
            "padding (P) of 2 is too much where R=2, COUNT_PAD=0",
            (
                "P may be 1 here at most: from P = R on, the first window has no element to take the mean of; "
                "COUNT_PAD=1 counts the padding"
            ),
        )
        for name in AVERAGES
    ),
    *(
        (
            name,
            at("R=2 S=2 P=3 COUNT_PAD=2"),
            at("R=2 S=2 P=3 COUNT_PAD=1"),
            "whether padding counts (COUNT_PAD) is 0 or 1, not 2",
            "with COUNT_PAD=1 the zeros of the padding are among the elements of a mean",
        )
        for name in AVERAGES
    ),
    *(
        (
            name,
            at("R=3 D=2 P=5"),
            at("R=3 D=2 P=4"),
            "padding (P) of 5 is too much where R=3, D=2",
            "P may be 4 here at most: beyond P = D*(R - 1), the first window has no element to take the maximum of",
        )
        for name in MAXIMA
    ),
    *(
        (
            name,
            at("S=2 D=3 OPAD=3"),
            at("S=2 D=3 OPAD=2"),
            "output padding (OPAD) of 3 is too much where S=2, D=3",
            "OPAD may be 2 here at most: it is less than S or D",
        )
        for name in TRANSPOSED
    ),
]


def test_what_has_limits() -> None:
    assert (len(AVERAGES), len(MAXIMA), len(TRANSPOSED)) == (4, 4, 6)


@pytest.mark.parametrize(
    ("name", "wrong", "right", "message", "hint"), LIMITS, ids=[f"{limit[0]}-{n}" for n, limit in enumerate(LIMITS)]
)
def test_padding_beyond_its_limit(name: str, wrong: Params, right: Params, message: str, hint: str) -> None:
    """A mean of nothing is not a number, a maximum of nothing minus infinity."""
    operators.load(name, **right)
    with pytest.raises(ms.LanguageError) as caught:
        operators.load(name, **wrong)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.message, diagnostic.hint) == (message, hint)
    column = diagnostic.column - 1
    parameter = message.partition("(")[2].partition(")")[0]
    assert operators.source(name).splitlines()[diagnostic.line - 1][column:].startswith(f"{parameter}=")


NO_INFINITY = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0")


@pytest.mark.parametrize("name", MAXIMA)
@pytest.mark.parametrize("dtype", NO_INFINITY)
def test_maxima_of_types_without_infinity_have_no_padding(name: str, dtype: str) -> None:
    with pytest.raises(ms.LanguageError) as caught:
        operators.load(name, T=dtype)
    assert f"maxima are padded (P=1) with minus infinity, and {dtype} (T) has none" in str(caught.value)
    assert ones_of(operators.load(name, T=dtype, P=0, **SMALL[name])) == {1.0}


@pytest.mark.parametrize("name", MAXIMA)
@pytest.mark.parametrize("dtype", sorted({str(each) for each in DType} - {"bool", *NO_INFINITY}))
def test_padding_is_no_maximum_of_other_types(name: str, dtype: str) -> None:
    assert ones_of(operators.load(name, T=dtype, **SMALL[name])) == {1.0}


@pytest.mark.parametrize("dtype", NO_INFINITY)
def test_a_program_may_pad_with_the_lowest_number(dtype: str) -> None:
    with pytest.raises(ms.LanguageError) as caught:
        operators.load("max_pool1d_nlc", T=dtype)
    (diagnostic,) = caught.value.diagnostics
    lowest = diagnostic.hint.split("`")[1]
    text = operators.source("max_pool1d_nlc").replace("T(f32(-inf))", lowest)
    assert ones_of(ms.parse_program(text, T=dtype, **SMALL["max_pool1d_nlc"])) == {1.0}


SMALL = {name: {size: 4 for size in "LZHW" if f"{size}=" in operators.source(name)} | {"C": 1} for name in MAXIMA}


def ones_of(program: ms.Program) -> set[float]:
    """The different elements of the result where all inputs are one."""
    (buffer,) = program.func.inputs
    shape = [as_int(extent) or 0 for extent in buffer.shape]
    return set(np.asarray(reference(program)(np.ones(shape, buffer.dtype.numpy)), np.float64).ravel().tolist())


def test_limits_of_what_is_no_number_are_said_by_the_language() -> None:
    with pytest.raises(ms.LanguageError, match="`P`"):
        operators.load("max_pool2d_nhwc", P="much")
    with pytest.raises(ms.LanguageError, match="the range of `r` is 0"):
        operators.load("max_pool2d_nhwc", R=0)


def test_operators_that_take_booleans() -> None:
    """They move elements, and compute nothing."""
    taken = set()
    for name in library_names():
        try:
            operators.load(name, T="bool")
        except ms.LanguageError:
            continue
        taken.add(name)
    assert taken == {"concat", "embedding", "nchw_to_nhwc", "pad2d_nchw", "pad2d_nhwc", "transpose"}
