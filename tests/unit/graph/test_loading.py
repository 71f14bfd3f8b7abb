"""What `load_onnx` takes, and what it says of what it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import metasched as ms

MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["": 22]> m (float[batch, past, total] x) => (y) { y = Relu(x) }'
)


def test_sizes_of_numpy() -> None:
    net = ms.load_onnx(MODEL, batch=np.int64(2), past=np.uint8(3), total="past + 1")
    assert net.inputs["x"].shape == (2, 3, 4)
    net = ms.load_onnx(MODEL, shapes={"x": np.array([1, 2, 3])})
    assert net.inputs["x"].shape == (1, 2, 3)
    ranged = ms.load_onnx(MODEL, batch=(1, np.int64(4)), past=1, total=1)
    assert ranged(np.ones((3, 1, 1), np.float32)).shape == (3, 1, 1)
    in_steps = ms.load_onnx(MODEL, batch=range(2, 9, 3), past=1, total=1)
    assert in_steps.ranges == {"batch": ms.SizeRange(2, 8, step=3)}
    assert in_steps(np.ones((5, 1, 1), np.float32)).shape == (5, 1, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": 2.0}, r"the size `batch` is a whole number, and not 2\.0$"),
        ({"batch": None}, "the size `batch` is a whole number, and not None$"),
        ({"batch": True}, "the size `batch` is a whole number, and not True$"),
        ({"batch": -1}, "the size `batch` is given as -1, and none is negative"),
        ({"batch": "2"}, r"`batch` is given as `2`; known are past, total\n  hint: .*a number is none, batch=2"),
        ({"batch": (1, 4.0)}, r"`high` of a range of sizes is a whole number, and not 4\.0"),
        ({"batch": (1,)}, r"the range of `batch` is its smallest and its largest size, \(1, 512\), and not \(1,\)"),
        ({"batch": (1, 8, 2)}, r"and not \(1, 8, 2\)\n  hint: sizes in steps are `batch=range\(32, 513, 32\)`$"),
        ({"batch": range(8, 1, -1)}, r"the range of `batch` goes up from .*, and not as range\(8, 1, -1\) does"),
        ({"batch": range(8, 8)}, r"the range of `batch` goes up from .*, and not as range\(8, 8\) does"),
        ({"batch": range(0, 8, 2)}, "a range of sizes goes from at least 1 up, and not from 0 to 6"),
        ({"shapes": {"x": 3}}, r"the shape of `x` is a list of sizes, such as \(1, 3, 224, 224\), and not 3"),
        ({"shapes": {"x": (1, 2.0, 3)}}, r"each size in the shape of `x` is a whole number, and not 2\.0"),
    ],
)
def test_sizes_that_are_none(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ms.NetworkError, match=message):
        ms.load_onnx(MODEL, past=1, total=1, **given)


NAMED_AS_OPTIONS = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["": 22]> m (float[target, db, sizes] x) => (y) { y = Relu(x) }'
)


def test_sizes_of_any_name() -> None:
    sizes = {"target": 2, "db": 3, "sizes": "target + 2"}
    net = ms.load_onnx(NAMED_AS_OPTIONS, sizes=sizes)
    assert net.inputs["x"].shape == (2, 3, 4)
    ranged = ms.load_onnx(NAMED_AS_OPTIONS, sizes={**sizes, "db": (1, 3)})
    assert ranged(np.ones((2, 2, 4), np.float32)).shape == (2, 2, 4)
    assert ms.load_onnx(MODEL, sizes={"batch": 2}, past=3, total=4).inputs["x"].shape == (2, 3, 4)
    with pytest.raises(ms.NetworkError, match="the size `past` is given twice: in `sizes`, and as an argument"):
        ms.load_onnx(MODEL, sizes={"past": 2}, past=3)
    with pytest.raises(
        ms.NetworkError, match=r"`sizes` has sizes by their names, and is 3\n  hint: .*\{\"sizes\": ...\}"
    ):
        ms.load_onnx(NAMED_AS_OPTIONS, sizes=3)  # type: ignore[call-overload]


def test_buckets_and_capacities_are_whole_numbers() -> None:
    assert ms.SizeRange(np.int64(1), np.int32(4), (np.int64(2),)) == ms.SizeRange(1, 4, (2,))
    assert repr(ms.GrowingSize(np.int64(4), (np.int64(2),))) == repr(ms.GrowingSize(4, (2,)))
    with pytest.raises(ms.NetworkError, match=r"a bucket is a whole number, and not 2\.5"):
        ms.SizeRange(1, 4, (2.5,))  # type: ignore[arg-type]
    with pytest.raises(ms.NetworkError, match=r"the capacity of caches is a whole number, and not 4\.0"):
        ms.GrowingSize(4.0)  # type: ignore[arg-type]
    with pytest.raises(ms.NetworkError, match="`low` of a range of sizes is a whole number, and not True"):
        ms.SizeRange(True, 4)
    with pytest.raises(ms.NetworkError, match="the capacity of caches is a whole number, and not True"):
        ms.GrowingSize(True)


@pytest.mark.parametrize("buckets", [2, "24"])
def test_buckets_are_a_list(buckets: Any) -> None:
    for made in (lambda: ms.SizeRange(1, 4, buckets=buckets), lambda: ms.GrowingSize(10, buckets=buckets)):
        with pytest.raises(
            ms.NetworkError, match=r"a list of the largest size of each bucket, such as \(2, 4\), and not"
        ):
            made()
