"""Each element once, against ONNX's reference where it does what ONNX says, and NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import check_some_rows, integers, model, node, run, some_rows, value

ALL = "elements firsts own sizes"


def expected(x: Any, axis: int | None, is_sorted: int) -> list[Any]:
    """What ONNX says; its reference takes elements of another axis where they are not sorted."""
    elements, firsts, own, sizes = np.unique(x, True, True, True, axis=axis)
    if not is_sorted:
        turn = np.argsort(firsts)
        own, firsts, sizes = np.argsort(turn)[own.reshape(-1)], firsts[turn], sizes[turn]
        elements = elements.take(turn, axis or 0)
    return [elements, firsts, own.reshape(-1), sizes]


def found(x: Any, is_sorted: int, known: bool = False, **attributes: Any) -> Any:
    made = model(
        [node("Unique", "x", ALL, sorted=is_sorted, **attributes)],
        [] if known else [value("x", x)],
        ALL.split(),
        {"x": x} if known else {},
    )
    return ms.load_onnx(made)(*([] if known else [x]))


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, bool], ids=str)
def test_each_element_once(dtype: Any, is_sorted: int) -> None:
    x = integers(3, 11, low=0, high=6).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        x[0, 3] = x[2, 1] = np.nan  # of which there is one, and one zero
        x[1, 0], x[2, 0], x[0, 0], x[0, 1] = np.inf, -np.inf, -0.0, 0.0
    for got, wanted in zip(found(x, is_sorted), expected(x, None, is_sorted), strict=True):
        np.testing.assert_array_equal(got, wanted, strict=True)


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((7, 2), 0), ((2, 9), -1), ((2, 8, 2), 1), ((5,), 0), ((1, 6, 1), 1)])
def test_each_slice_once(shape: tuple[int, ...], axis: int, is_sorted: int, known: bool) -> None:
    x = integers(*shape, low=-1, high=1)
    for got, wanted in zip(found(x, is_sorted, known, axis=axis), expected(x, axis, is_sorted), strict=True):
        np.testing.assert_array_equal(got, wanted, strict=True)


def test_slices_with_none_of_numbers_are_equal() -> None:
    x = np.float32([[1, np.nan], [1, np.inf], [1, np.nan], [np.nan, 0], [1, -np.inf]])
    elements, firsts, own, sizes = found(x, 1, axis=0)
    np.testing.assert_array_equal(elements, x[[4, 1, 0, 3]])
    np.testing.assert_array_equal(firsts, [4, 1, 0, 3])
    np.testing.assert_array_equal(own, [2, 1, 2, 3, 0])
    np.testing.assert_array_equal(sizes, [1, 1, 2, 1])


def test_of_many_elements() -> None:
    x = integers(600, low=0, high=150)
    for got, wanted in zip(found(x, 0), expected(x, None, 0), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.int32], ids=str)
def test_of_as_many_elements_as_data_decide(dtype: Any) -> None:
    x = integers(8, 3, low=0, high=3).astype(dtype)
    x[3] = x[6] = np.iinfo(dtype).max if dtype == np.int32 else np.nan
    masks = [np.ones(8, bool), np.arange(8) % 2 == 1, np.zeros(8, bool), np.arange(8) < 3]
    whole = node("Unique", "some", ALL)
    check_some_rows([whole], ALL.split(), x, masks)
    given = [value("x", x), value("mask", masks[0])]
    junk = {"junk": x.max(), "axes": [1]}  # NaN, if there is one
    for axis, rows in ((None, x), (0, x), (0, np.nan_to_num(x))):
        for is_sorted in (0, 1):
            made = node("Unique", "some", ALL, sorted=is_sorted, **({} if axis is None else {"axis": axis}))
            net = ms.load_onnx(model([*some_rows(2), made], given, ALL.split(), junk))
            for mask in masks:
                if axis is not None and np.isnan(rows[mask]).any():
                    continue
                for got, wanted in zip(net(rows, mask), expected(rows[mask], axis, is_sorted), strict=True):
                    np.testing.assert_array_equal(got, wanted, strict=True)


def test_what_is_unique_goes_on() -> None:
    x = integers(12, low=0, high=5)
    nodes = [node("Unique", "x", "elements - own"), node("Shape", "elements", "size"), node("Gather", "elements own")]
    again, size = ms.load_onnx(model(nodes, [value("x", x)], ["Y", "size"]))(x)
    np.testing.assert_array_equal(again, x)
    assert size == len(np.unique(x))


def test_no_elements_and_known_ones() -> None:
    assert run("Unique", np.zeros((0, 3), np.float32)).shape == (0,)
    np.testing.assert_array_equal(run("Unique", np.int64([3, 1, 3]), constants=(0,), sorted=0), [3, 1])
    x = np.array([np.nan, 2, np.nan, 1], ml_dtypes.bfloat16)
    for constants in ((), (0,)):
        np.testing.assert_array_equal(run("Unique", x, constants=constants).astype(np.float32), [1, 2, np.nan])


def test_what_is_refused() -> None:
    x = np.ones((2, 5000), np.float32)
    with pytest.raises(ms.RefusedModel, match=r"it compares each of 5000 slices of .* with each: up to 4096 are taken"):
        run("Unique", x, axis=1)
    nodes = [node("NonZero", "x", "places"), node("Unique", "places"), node("Unique", "places", "rows", axis=0)]
    with pytest.raises(ms.RefusedModel) as caught:
        ms.load_onnx(model(nodes, [value("x", x[:, :4])], ["Y", "rows"]))
    assert all("data decide how many elements" in refusal.reason for refusal in caught.value.refusals)
