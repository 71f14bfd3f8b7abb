"""The sizes that knowledge is collected for: in an order whose beginnings are spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import metasched as ms
from benchmarks.knowledge import collect
from benchmarks.knowledge.depthwise import depthwise
from benchmarks.knowledge.expected import with_few_structures
from benchmarks.knowledge.first_layers import FIRST_LAYERS, FirstLayer
from benchmarks.knowledge.from_text import Written
from benchmarks.knowledge.from_yardstick import entries_of_task
from benchmarks.knowledge.halves import half_layers
from benchmarks.knowledge.numerical import TEXTS, numerical
from benchmarks.knowledge.quantised import quantised
from benchmarks.knowledge.sizes import Sized, _spread_order
from benchmarks.network_shapes import LAYERS
from benchmarks.yardstick.data import TENSOR_DATA, read_tasks
from metasched.knowledge.anchor import anchor_of
from metasched.knowledge.entries import Cpu, Decisions, Entry
from metasched.knowledge.library import shipped
from tests.support.targets import AVX512


def test_an_order_is_spread_over_a_list() -> None:
    assert _spread_order(10) == [0, 8, 4, 2, 6, 1, 9, 5, 3, 7]
    assert [sorted(_spread_order(n)) for n in range(40)] == [list(range(n)) for n in range(40)]


def test_sizes_with_enough_records_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(*_: object, **__: object) -> None:
        raise ms.NoRecord("nothing was valid")

    sizes = [Sized("transpose", (("M", m), ("N", 8))) for m in (4, 5)]
    monkeypatch.setattr(collect, "_records_of", lambda program, *_: dict(program.params)["M"])
    monkeypatch.setattr(ms, "tune", tune)
    (line,) = collect.collect_sizes(sizes, "sqlite:///:memory:", trials=5, until=float("inf"))
    assert line == {"case": "transpose M=4 N=8", "failure": "nothing was valid"}
    assert list(collect.collect_sizes(sizes, "sqlite:///:memory:", trials=5, until=0.0)) == []


@pytest.mark.parametrize("pad", [0, 2])
def test_a_first_layer_is_a_convolution_with_an_activation(pad: int) -> None:
    layer = FirstLayer(9, 3, 2, pad, 4, "silu")
    rng = np.random.default_rng(0)
    image, filters, bias = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 9, 9), (3, 3, 3, 4), (4,)))
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(image[0], ((0, 0), (pad, pad), (pad, pad))), (3, 3), (1, 2)
    )
    x = np.einsum("chwrs,rsco->hwo", windows[:, ::2, ::2], filters) + bias
    found = ms.reference(layer.program())(image, filters, bias)
    np.testing.assert_allclose(found[0], x / (1 + np.exp(-x)), rtol=1e-4, atol=1e-5)


def test_no_first_layer_has_the_anchor_of_one_that_guesses_are_judged_by() -> None:
    def size(program: ms.Program) -> tuple[object, ...]:
        anchor = anchor_of(program.func)
        return anchor.kind, anchor.extents, anchor.steps

    judged = {size(layer.program()) for layer in LAYERS}
    assert not [layer.case for layer in FIRST_LAYERS if size(layer.program()) in judged]


_A, _B = (np.random.default_rng(n).random((8, 8)).astype(np.float32) for n in (0, 1))
_PLACES = np.random.default_rng(2).integers(0, 8, (8, 8)).astype(np.int32)
_CUBE = np.random.default_rng(3).random((5, 5, 5)).astype(np.float32)
_WINDOWS = sliding_window_view(_CUBE, (3, 3, 3))


@pytest.mark.parametrize(
    ("operator", "inputs", "expected"),
    [
        ("column_sums", (_A,), _A.sum(0)),
        ("column_maxima", (_A,), _A.max(0)),
        ("matrix_vector", (_A, _B[0]), _A @ _B[0]),
        ("vector_matrix", (_A, _B[0]), _B[0] @ _A),
        ("gram_of_columns", (_A,), _A.T @ _A),
        ("gram_of_rows", (_A,), _A @ _A.T),
        ("squared_distances", (_A, _B), ((_A[:, None] - _B) ** 2).sum(-1)),
        ("absolute_distances", (_A, _B), abs(_A[:, None] - _B).sum(-1)),
        ("filter", (_A[0], _B[0, :3]), np.correlate(_A[0], _B[0, :3])),
        ("filters", (_A, _B[0, :3]), np.stack([np.correlate(row, _B[0, :3]) for row in _A])),
        ("correlation", (_A, _B[:3, :3]), np.einsum("hwrs,rs->hw", sliding_window_view(_A, (3, 3)), _B[:3, :3])),
        ("sparse_rows", (_A, _PLACES, _B[0]), (_A * _B[0][_PLACES]).sum(1)),
        ("stencil", (_CUBE, _CUBE[:3, :3, :3]), np.einsum("hwzrst,rst->hwz", _WINDOWS, _CUBE[:3, :3, :3])),
    ],
)
def test_a_numerical_program_is_what_its_name_says(
    operator: str, inputs: tuple[np.ndarray, ...], expected: np.ndarray
) -> None:
    sizes = {"filter": (6, 3), "filters": (8, 6, 3), "correlation": (6, 6, 3), "stencil": (3, 3), "sparse_rows": (8, 8)}
    program = Written(
        operator, TEXTS[operator], sizes.get(operator, (8,) * (3 if "distances" in operator else 2))
    ).program()
    found = ms.reference(program)(*inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_every_size_of_a_program_in_text_is_one_of_it() -> None:
    for sizes in (*numerical(), *quantised(), *depthwise(), *half_layers()):
        for size in sizes:
            assert tuple(dict(size.program().params).values()) == size.sizes


def test_depthwise_layers_are_convolutions_with_what_follows() -> None:
    rng = np.random.default_rng(0)
    data, weights, bias = (rng.random(shape, np.float32) - 0.5 for shape in ((1, 7, 7, 4), (5, 5, 4), (4,)))
    total = ms.reference(ms.operator("depthwise_conv2d_nhwc", H=7, W=7, C=4, R=5, S=2, P=2))(data, weights) + bias
    followed = {"relu": np.maximum(total, 0), "silu": total / (1 + np.exp(-total))}
    for first, *_ in depthwise():
        found = ms.reference(replace(first, sizes=(7, 4, 5, 2)).program())(data, weights, bias)
        np.testing.assert_allclose(found, followed[first.operator.split("_")[1]], rtol=1e-4, atol=1e-5)


def test_depthwise_layers_of_graphs_are_known() -> None:
    for size in (size for sizes in depthwise() for size in sizes):
        (nearest,) = shipped().nearest(anchor_of(size.program().func), AVX512, 1)
        assert nearest.distance == 0, size.case


def test_what_was_timed_with_tiles_is_known_by_its_structure_and_numbers() -> None:
    task = next(iter(read_tasks(TENSOR_DATA)))
    best, *_ = entries_of_task(task)
    assert dict(best.structure)["use_amx({anchor})/intrinsic"] == "tile_bf16_amx"
    assert best.cpu == Cpu(16, 2)
    assert best.extents == (1, 56, 56, 64, 3, 3, 64)
    assert best.microseconds == pytest.approx(1e6 * min(min(code.first_s, code.second_s) for code in task.codes))


def test_so_few_structures_are_kept_that_each_size_has_one_near_its_best() -> None:
    def entry(size: int, taken: str, microseconds: float) -> Entry:
        structure: Decisions = (("fusion", taken),)
        return Entry("y[s0]", Cpu(16, 2), structure, (size,), (), microseconds, ())

    tiles = [[entry(size, "level 1", 10.0), entry(size, "level 2", 10.0 + size)] for size in (8, 16)]
    small = [entry(1, "level 2", 1.0), entry(1, "none", 1.05), entry(1, "level 1", 2.0)]
    other = [entry(2, "none", 3.0)]
    found = list(with_few_structures([*tiles, small, other, []]))
    assert [(e.extents[0], dict(e.structure)["fusion"]) for e in found] == [
        (8, "level 1"), (16, "level 1"), (1, "none"), (2, "none"),
    ]  # fmt: skip
