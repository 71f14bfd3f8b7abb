"""Kernels and functions of `ms.kernel` in other processes, and copied in this one."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import metasched as ms
from metasched.runtime.kernel import compiled_again
from metasched.runtime.recipe import Recipe
from tests.support.kept_workers import kept_workers

TEXT = "C[i, j] = sum[k](A[i, k] * B[k, j])"
A, B = np.arange(24, dtype=np.float32).reshape(4, 6), np.ones((6, 5), np.float32)
PROGRAM = "program scale[N=9](X: f32[N], alpha: f32) -> Y: f32[N]:\n    Y[i] = X[i] * alpha\n"
WEIGHTS = "program matmul(A: f32[4, 6], const W: f32[6, 5]) -> C: f32[4, 5]:\n    C[i, j] = sum[k](A[i, k] * W[k, j])\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path))


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    with kept_workers():
        yield


def there_and_back(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def same_kernel(again: ms.Kernel, kernel: ms.Kernel) -> None:
    assert again is not kernel
    assert (again.program, again.trace, again.target, again.origin) == (
        (kernel.program, kernel.trace, kernel.target, kernel.origin)
    )
    assert str(again.report) == str(kernel.report)
    assert repr(again) == repr(kernel)


def test_a_kernel_of_a_guess() -> None:
    kernel = ms.compile(ms.parse_program(PROGRAM))
    again = there_and_back(kernel)
    same_kernel(again, kernel)
    np.testing.assert_array_equal(again(A.ravel()[:9], 2.0), 2 * A.ravel()[:9])


def test_a_kernel_that_was_tuned(tmp_path: Path) -> None:
    kernel = ms.tune(ms.parse_program(PROGRAM), trials=2, db=f"sqlite:///{tmp_path}/t.db")
    same_kernel(there_and_back(kernel), kernel)


def test_a_packed_kernel() -> None:
    program = ms.parse_program(WEIGHTS)
    sch = ms.Schedule(program)
    sch.cache_read(sch.get_block("C"), "W")
    packed = ms.compile(program, trace=sch.trace).pack(B)
    again = there_and_back(packed)
    np.testing.assert_array_equal(again(A), packed(A))
    assert again.packed_bytes == packed.packed_bytes
    assert copy.deepcopy(packed) is packed
    with pytest.raises(ms.KernelError, match="pickle the packed kernel instead"):
        pickle.dumps(packed.kernel)


def test_a_kernel_for_another_machine() -> None:
    recipe = Recipe.from_kernel(ms.compile(ms.parse_program(PROGRAM)))
    other = replace(recipe, target=replace(recipe.target, name="a64fx", features=frozenset({"sve", "neon"})))
    with pytest.raises(
        ms.KernelError, match=r"compiled for a64fx, and this machine lacks `neon` and `sve` of it\n  hint: compile it"
    ):
        compiled_again(other)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
@pytest.mark.parametrize("sizes", [{"n": 2}, {"n": (1, 4)}, {"n": ms.GrowingSize(4)}])
def test_networks_stay_in_their_process(sizes: Any, copied: Any) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 22]> m (float[n, 2] kept, float[1, 2] x) => (next) '
        "{ next = Concat<axis=0>(kept, x) }"
    )
    net = ms.load_onnx(model, **sizes)
    with pytest.raises(ms.NetworkError, match=r"neither pickled nor copied deeply\n  hint: .* net\.export\(folder\)"):
        copied(net)
    assert net.session().inputs == net.inputs == copy.copy(net).inputs


def test_copies_are_the_kernel_itself() -> None:
    kernel, f = ms.compile(ms.parse_program(PROGRAM)), ms.kernel(TEXT)
    for value in (kernel, f):
        assert copy.copy(value) is value
        assert copy.deepcopy({"a": [value]})["a"][0] is value


def test_a_function(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/f.db"
    f = ms.kernel(TEXT, db=url, rules="cpu,-inline", target=ms.Target.detect(threads=1))
    f.tune(A, B, trials=2)
    f(np.asfortranarray(A), B)
    Path(url.removeprefix("sqlite:///")).unlink()
    again = there_and_back(there_and_back(f))
    assert (again.text, again.arguments) == (f.text, f.arguments)
    np.testing.assert_array_equal(again(A, B), A @ B)
    same_kernel(again.kernel_for(A, B), f.kernel_for(A, B))
    same_kernel(again.kernel_for(np.asfortranarray(A), B), f.kernel_for(np.asfortranarray(A), B))
    assert again.kernel_for(A[:2], B).target.threads == 1


def test_a_guess_that_came_along_gives_way_to_what_was_tuned_since() -> None:
    f = ms.kernel(TEXT, rules=[])
    f(A, B)
    pickled = pickle.dumps(f)
    ms.kernel(TEXT, rules=[]).tune(A, B, trials=1)
    assert pickle.loads(pickled).kernel_for(A, B).origin is ms.Origin.MEASURED


def test_in_processes_that_start_afresh() -> None:
    f = ms.kernel(TEXT, rules=[], target=ms.Target.detect(threads=1))
    kernel = f.kernel_for(A, B)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for result in pool.starmap(kernel, [(A, B)]) + pool.starmap(f, [(A, B), (A.copy().T.copy().T, B)]):
            np.testing.assert_array_equal(result, A @ B)


@pytest.mark.parametrize("value", [ms.parse_program(PROGRAM), ms.Schedule(ms.parse_program(PROGRAM)).trace])
def test_programs_and_traces(value: Any) -> None:
    again = there_and_back(value)
    assert again == value
    assert str(again) == str(value)
