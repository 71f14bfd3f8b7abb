"""The plot of best times against trials."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from benchmarks.composition_plot import plot

_SVG = "{http://www.w3.org/2000/svg}"


def test_a_line_for_each_list_in_a_panel_for_each_type() -> None:
    root = ET.fromstring(plot({"f32": {"tiles": [2e-3, 1e-3], "lanes": [1e-3, 1e-3]}, "bf16": {"tiles": [1.0]}}))
    lines = root.findall(f"{_SVG}polyline")
    assert len(lines) == 3
    first, last = (point.split(",") for point in lines[0].attrib["points"].split())
    assert float(first[0]) < float(last[0])
    assert float(first[1]) < float(last[1])  # less time is further down


def test_failures_are_no_points() -> None:
    root = ET.fromstring(plot({"f32": {"tiles": [float("inf"), 1e-3]}, "u8": {"tiles": [float("inf")]}}))
    (line,) = root.findall(f"{_SVG}polyline")
    assert len(line.attrib["points"].split()) == 1
