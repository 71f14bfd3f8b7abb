"""Windows: which of their elements meet data."""

from __future__ import annotations

from metasched.graph.node_helpers.windows import Windows, drop_border_taps


def along(inputs: int, kernel: int, dilation: int, pad: int) -> Windows:
    outputs = inputs + 2 * pad - dilation * (kernel - 1)
    return Windows((inputs,), (kernel,), (1,), (dilation,), (pad,), (pad,), (outputs,))


def test_only_the_middle_of_a_window_that_is_wider_than_its_input_is_kept() -> None:
    fewer, kept = drop_border_taps(along(6, kernel=3, dilation=12, pad=12))
    assert kept == (range(1, 2),)
    assert fewer == Windows((6,), (1,), (1,), (12,), (0,), (0,), (6,))


def test_windows_whose_elements_all_meet_data_stay_as_they_are() -> None:
    windows = along(6, kernel=3, dilation=2, pad=2)
    assert drop_border_taps(windows) == (windows, (range(3),))


def test_windows_in_the_border_as_a_whole_stay_as_they_are() -> None:
    windows = Windows((1,), (2,), (9,), (1,), (4,), (0,), (1,))
    assert drop_border_taps(windows) == (windows, (range(2),))
