"""Fourier transforms and scales of pitches, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import random, run

Array = np.ndarray[Any, Any]


def parts(x: Array) -> Array:
    """Complex numbers as their parts, in an axis of their own."""
    return np.stack([x.real, x.imag], -1).astype(np.float32)


def near(found: Array, wanted: Array) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=2e-5 * float(np.abs(wanted).max()), rtol=1e-4)


def complex_numbers(*shape: int) -> Array:
    return random(*shape) + 1j * random(*shape, seed=7)


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("length", [None, 4, 5, 9])
@pytest.mark.parametrize("inverse", [0, 1])
def test_transforms_of_complex_numbers(axis: int, length: int | None, inverse: int) -> None:
    x = complex_numbers(3, 5, 7)
    transform = np.fft.ifft if inverse else np.fft.fft
    wanted = parts(transform(x, length, axis - (axis == -2) * -1))
    given = None if length is None else np.int64(length)
    known = [n for n, value in ((1, given), (2, axis)) if value is not None]
    near(run("DFT", parts(x), given, np.int64(axis), constants=known, inverse=inverse), wanted)


@pytest.mark.parametrize("length", [6, 7])
def test_real_numbers_have_half_a_spectrum_and_come_back(length: int) -> None:
    x = random(2, length)
    half = run("DFT", x[..., None], None, np.int64(1), constants=[2], onesided=1)
    near(half, parts(np.fft.rfft(x)))
    back = run("DFT", half, np.int64(length), np.int64(1), constants=[1, 2], onesided=1, inverse=1)
    near(back, x[..., None])


def test_the_axis_was_an_attribute() -> None:
    x = random(2, 6, 1)
    near(run("DFT", x, opset=17), parts(np.fft.fft(x[..., 0])))


def test_frames_of_a_signal() -> None:
    signal, window = random(2, 50), np.hanning(16).astype(np.float32)
    frames = np.stack([signal[:, at : at + 16] for at in range(0, 35, 5)], 1)
    step, wanted = np.int64(5), parts(np.fft.rfft(frames * window))
    near(run("STFT", signal[..., None], step, window, np.int64(16), constants=[1, 3]), wanted)
    near(run("STFT", signal[..., None], step, window, constants=[1, 2]), wanted)
    near(run("STFT", signal, step, window, constants=[1, 2]), wanted)
    both = run("STFT", signal[..., None], step, None, np.int64(16), constants=[1, 3], onesided=0)
    near(both, parts(np.fft.fft(frames)))


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("length", [96, 105])
def test_long_transforms_are_two_of_short_ones(length: int, inverse: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = complex_numbers(3, length)
    given, settings = (parts(x), None, np.int64(1)), {"constants": [2], "inverse": inverse}
    transform = np.fft.ifft if inverse else np.fft.fft
    near(run("DFT", *given, **settings), parts(transform(x)))
    monkeypatch.setattr("metasched.graph.node_types.spectra._WORTH_TWO_STEPS", 1)
    half = run("DFT", x.real[..., None].copy(), None, np.int64(1), constants=[2], onesided=1)
    near(half, parts(np.fft.rfft(x.real)))
    # No table has a row for each element.
    monkeypatch.setattr("metasched.graph.node_types.spectra._MOST_ELEMENTS", 10 * length)
    near(run("DFT", *given, **settings), parts(transform(x)))


def test_long_transforms_are_refused() -> None:
    with pytest.raises(ms.RefusedModel, match="a table of more than 16777216 numbers"):
        run("DFT", np.zeros((1, 10007, 1), np.float32), None, np.int64(1), constants=[2])


def test_bands_are_triangles() -> None:
    given = (np.int64(4), np.int64(64), np.int64(8000), np.float32(100), np.float32(4000))
    table = run("MelWeightMatrix", *given, constants=range(5))
    assert table.shape == (33, 4)
    assert (np.diff(table.argmax(axis=0)) > 0).all()
    np.testing.assert_array_equal(table.max(axis=0), 1)
    for band in table.T:
        rises = np.diff(band[np.flatnonzero(band)[0] - 1 : band.argmax() + 1])
        np.testing.assert_allclose(rises, rises[0], rtol=1e-6)
