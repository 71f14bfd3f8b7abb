"""`ms.jit`: calls, keys of traces, structures, constants."""

from __future__ import annotations

import copy
import pickle
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.database.database_registry import DEFAULT_DATABASE
from metasched.graph.tuning import settling
from tests.support.fake_runner import AllFaster, FakeRunner

A = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
B = np.ones((3, 2), np.float32)
Pair = namedtuple("Pair", "left right")


def counted(function: Any) -> tuple[Any, list[int]]:
    """A jitted function, and a list that grows by each trace."""
    traces: list[int] = []

    def body(*args: Any, **kwargs: Any) -> Any:
        traces.append(1)
        return function(*args, **kwargs)

    return ms.jit(body), traces


def test_a_function_is_compiled_and_traced_once_for_each_combination_of_types() -> None:
    f, traces = counted(lambda a, b: np.maximum(a @ b, 0))
    np.testing.assert_array_equal(f(A, B), np.maximum(A @ B, 0))
    f(A + 1, B)
    assert len(traces) == 1
    wide = f(A.astype(np.float64), B)
    assert wide.dtype == np.float64
    assert len(traces) == 2


def test_strided_and_foreign_arrays_are_taken() -> None:
    f, traces = counted(lambda a: a * 2)
    np.testing.assert_array_equal(f(A.T), A.T * 2)
    np.testing.assert_array_equal(f(np.repeat(A.T, 2, 0)[::2]), A.T * 2)
    np.testing.assert_array_equal(f(memoryview_of(A.T)), A.T * 2)
    assert len(traces) == 1


def memoryview_of(array: Any) -> Any:
    """An array of another class of NumPy's."""
    return np.ascontiguousarray(array).view(type("Sub", (np.ndarray,), {}))


def test_results_that_are_scalars_are_those_of_numpy() -> None:
    made = ms.jit(lambda a: a.sum())(A)
    assert type(made) is np.float32
    assert made == A.sum()


def body_with_structures(p: Any, *, scale: Any = 2.0, name: str = "x") -> Any:
    total = p["w"][0] + p["w"][1] * scale
    return {"y": Pair(total, [p["w"][0].T, 3]), name: None, "same": total}


def test_structures_of_arrays_are_arguments_and_results() -> None:
    f = ms.jit(body_with_structures)
    given = {"w": (A, A + 1)}
    for options in ({}, {"scale": 3, "name": "z"}, {"scale": np.float32(0.5)}):
        have, want = f(given, **options), body_with_structures(given, **options)
        assert have.keys() == want.keys()
        assert type(have["y"]) is Pair
        assert have["y"].right[1] == 3
        np.testing.assert_array_equal(have["y"].left, want["y"].left)
        np.testing.assert_array_equal(have["y"].right[0], want["y"].right[0])
        np.testing.assert_array_equal(have["same"], want["same"])
    assert f.graph(given).inputs == ("p_w_0", "p_w_1")


def test_values_that_are_no_arrays_are_part_of_the_combination() -> None:
    f, traces = counted(lambda a, n: a * n)
    for n, count in ((2, 1), (2.0, 2), (True, 3), (2, 3)):
        np.testing.assert_array_equal(f(A, n), A * n)
        assert len(traces) == count
    for other in ({1}, memoryview(bytearray(4))):
        with pytest.raises(ms.TraceError, match="neither an array nor hashable"):
            f(A, other)


def test_arrays_from_outside_are_constants_as_they_were() -> None:
    weights = np.ones(3, np.float32)
    f = ms.jit(lambda a: a * weights)
    weights[:] = 5
    np.testing.assert_array_equal(f(A), A * 5)
    weights[:] = 7
    np.testing.assert_array_equal(f(A), A * 5)
    assert list(f.graph(A).constants) == ["weights"]


def filled_while_traced(x: Any) -> Any:
    known, total = np.zeros(3, np.float32), x * 0
    for k in range(3):
        known[k] = (1, np.nan, -0.0)[k]
        total = total + x * known
    return total, x * known


def test_arrays_that_the_function_writes_are_read_as_they_are() -> None:
    made = ms.jit(filled_while_traced)
    for have, want in zip(made(A), filled_while_traced(A), strict=True):
        np.testing.assert_array_equal(have, want)
    assert len(made.graph(A).constants) == 3  # as it was at each use, and the last one twice


def test_results_are_new_arrays_and_no_two_are_one() -> None:
    f = ms.jit(lambda a: (a, a, a + 1, a.T.T))
    first, second, third, fourth = f(A)
    first += 1
    third += 1
    np.testing.assert_array_equal(second, A)
    np.testing.assert_array_equal(fourth, A)
    np.testing.assert_array_equal(f(A)[2], A + 1)


def test_functions_that_compute_nothing() -> None:
    assert ms.jit(lambda a: a.shape)(A) == (2, 3)
    assert ms.jit(lambda a: None)(A) is None
    np.testing.assert_array_equal(ms.jit(lambda a: a)(A), A)
    np.testing.assert_array_equal(ms.jit(lambda a: np.arange(3))(A), np.arange(3))
    np.testing.assert_array_equal(ms.jit(lambda: np.arange(3))(), np.arange(3))


def test_a_jitted_function_is_part_of_another() -> None:
    inner = ms.jit(lambda a: a + 1)
    outer = ms.jit(lambda a: inner(a) * inner(a=a))
    np.testing.assert_array_equal(outer.graph(A) and outer(A), (A + 1) ** 2)


def test_methods_take_their_object_as_what_is_no_array() -> None:
    class Layer:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @ms.jit
        def __call__(self, x: Any) -> Any:
            return x * self.factor

    np.testing.assert_array_equal(Layer(2)(A), A * 2)
    np.testing.assert_array_equal(Layer(3)(A), A * 3)


def test_arguments_that_are_no_plain_arrays_are_refused() -> None:
    f = ms.jit(lambda a: a + 1)
    with pytest.raises(ms.KernelError, match="masked array"):
        f(np.ma.masked_less(A, 0))
    with pytest.warns(PendingDeprecationWarning), pytest.raises(ms.KernelError, match=r"numpy\.matrix"):
        f(np.matrix(A))
    with pytest.raises(ms.TraceError, match=r"the argument `a` of `<lambda>`.*complex64"):
        f(A.astype(np.complex64))
    with pytest.raises(TypeError, match="takes a function"):
        ms.jit(3)  # type: ignore[call-overload]


def test_an_error_of_the_function_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        ms.jit(lambda a: a * (1 // 0))(A)


def test_threads_may_call_it() -> None:
    f = ms.jit(lambda a: a * 2 + 1)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: f(A + n), range(16)))
    for n, result in enumerate(made):
        np.testing.assert_array_equal(result, (A + n) * 2 + 1)


def test_its_name_and_options() -> None:
    @ms.jit(target=ms.Target.detect())
    def normalised(x: Any) -> Any:
        """A row of length one."""
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    assert normalised.__doc__ == "A row of length one."
    assert repr(normalised) == "<jit normalised, traced for nothing yet>"
    normalised(A)
    assert repr(normalised) == "<jit normalised, traced for 1 combination>"
    assert normalised.graph(A).name == "normalised"


def doubled(x: Any) -> Any:
    return x * 2


@ms.jit
def halved(x: Any) -> Any:
    return x / 2


class Scaled:
    @staticmethod
    @ms.jit
    def tripled(x: Any) -> Any:
        return x * 3


@pytest.mark.parametrize("is_called", [False, True])
def test_a_pickled_function_is_traced_again(is_called: bool) -> None:
    here = ms.jit(doubled, target=ms.Target.detect(threads=1))
    if is_called:
        here(A)
    f = pickle.loads(pickle.dumps(here))
    np.testing.assert_array_equal(f(A), A * 2)
    assert f.network(A).target.threads == 1
    assert repr(copy.deepcopy(here)) == "<jit doubled, traced for nothing yet>"


@pytest.mark.parametrize("f", [halved, Scaled.tripled])
def test_a_decorated_function_is_pickled_by_its_name(f: ms.JitFunction) -> None:
    f(A)
    assert pickle.loads(pickle.dumps(f)) is f
    assert copy.deepcopy(f) is f


def test_a_function_without_a_name_of_its_own_is_not_pickled() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="<lambda>"):
        pickle.dumps(ms.jit(lambda x: x))


def test_tuning_is_of_the_network_that_arguments_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(ms.Network, "tune", lambda network, *args, **options: seen.append((network, args, options)))
    f = ms.jit(lambda a, b: a @ b)
    assert f.tune(A, b=B, budget=3, db="sqlite:///x.db") is f.network(A, b=B)
    network, args, options = seen.pop()
    assert (network, args, options["budget"]) == (f.network(A, b=B), (None, "sqlite:///x.db"), 3)
    given = {"seed": 7, "patience": 5, "rules": [], "allow": {"fastmath"}, "progress": False}
    f.tune(A, B, trials=2, **given)
    assert seen == [(f.network(A, B), (2, DEFAULT_DATABASE), {"budget": None, **given})]


def test_what_was_tuned_is_found_in_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metasched.measure.executors.local.LocalRunner", lambda _: FakeRunner())
    monkeypatch.setattr(settling, "_time_in_turns", lambda *_: AllFaster())

    def layer(x: Any, w: Any) -> Any:
        return np.maximum(x @ w, 0)

    rng, url = np.random.default_rng(0), f"sqlite:///{tmp_path}/t.db"
    x, w = rng.random((32, 64), np.float32), rng.random((64, 48), np.float32)
    first, second = ms.jit(layer), ms.jit(layer)
    expected = first(x, w)
    net = first.tune(x, w, trials=4, db=url, progress=False)
    again = second.network(x, w).use(url)
    assert net.choices
    assert {key: choice.trace for key, choice in again.choices.items()} == {
        key: choice.trace for key, choice in net.choices.items()
    }
    np.testing.assert_allclose(first(x, w), expected, rtol=1e-4)
    np.testing.assert_array_equal(second(x, w), first(x, w))


def test_zeros_have_signs_and_no_number_is_one_number() -> None:
    function = ms.jit(lambda x, by: 1 / (x * by))
    x = np.ones(2, np.float32)
    with np.errstate(divide="ignore"):
        for by in (0.0, -0.0, np.nan, np.nan):
            np.testing.assert_array_equal(function(x, by), 1 / (x * np.float32(by)))
    assert "3 combinations" in repr(function)


def test_arguments_by_name_and_numbers_of_numpy_are_told_apart() -> None:
    made = ms.jit(lambda x, y, scale=1: x * scale + y)
    x, y = np.ones(3), np.float64(2)
    for _ in range(2):  # traced, and found
        np.testing.assert_array_equal(made(x, y), x + 2)
        np.testing.assert_array_equal(made(y=y, x=x, scale=3), x * 3 + 2)
        np.testing.assert_array_equal(made(x, scale=2, y=y), x * 2 + 2)
        np.testing.assert_array_equal(made(x=x, y=x * 5, scale=True), x * 6)
    assert "4 combinations" in repr(made)


def test_each_result_is_an_array_of_its_own() -> None:
    def model(x: Any) -> Any:
        y = x + 1
        return y, y, y[0], y.T, x

    arrays = [*ms.jit(model)(A), A]
    assert sum(np.shares_memory(a, b) for a in arrays for b in arrays) == len(arrays)
