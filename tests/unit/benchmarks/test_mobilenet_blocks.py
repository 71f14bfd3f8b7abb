"""A block of MobileNet-v2 is the same as one program and as three that feed one another, and so are both sides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from benchmarks import mobilenet_blocks
from benchmarks.chain_side import chain_calls, prepare_chain
from benchmarks.kernels import write_inputs
from benchmarks.mobilenet_blocks import APART, BLOCKS, Block, mean_of
from benchmarks.registry import Options
from benchmarks.sides import OURS, SideTime

SMALL = Block(1, size=7, ci=3, ce=8, co=5, stride=2)


def test_a_block_does_what_its_three_programs_do() -> None:
    for block in BLOCKS:
        assert block.whole_program().flops == sum(program.flops for program in block.stage_programs())
        assert [name for program in block.stage_programs() for name in program.func.order[1:]] == [
            *block.whole_program().func.order[1:]
        ]
    assert len({str(block.whole_program()) for block in BLOCKS}) == len(BLOCKS) == len({block.case for block in BLOCKS})


def test_both_sides_compute_the_same_from_the_same_inputs(tmp_path: Path) -> None:
    inputs = write_inputs(SMALL.whole_program(), tmp_path)

    def result(*programs: ms.Program) -> np.ndarray:
        given = [(str(program), str(ms.Schedule(program).trace)) for program in programs]
        parts, found, prologue_s = prepare_chain({"programs": given, "threads": 1, "inputs": inputs})
        assert len(parts) == len(programs)
        assert prologue_s is None
        assert chain_calls(parts)(2) > 0
        return found

    whole = result(SMALL.whole_program())
    assert whole.shape == (4, 4, 5)
    assert np.abs(whole).max() > 0
    np.testing.assert_allclose(result(*SMALL.stage_programs()), whole, atol=1e-5 * np.abs(whole).max())


def test_a_line_says_what_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def prepare(self: object, sides: Mapping[str, object], found: object, folder: Path) -> dict[str, float | None]:
        return {OURS: 2e-3, APART: None}

    def tuned(program: ms.Program, trials: int, seed: int, threads: int) -> ms.Schedule:
        searched.append(f"{program.name}, {trials} trials, seed {seed}")
        return ms.Schedule(program)

    monkeypatch.setattr(mobilenet_blocks, "tune_program", tuned)
    monkeypatch.setattr(mobilenet_blocks._Comparison, "_prepare", prepare)
    times = {OURS: SideTime(2e-4, (2e-4,)), APART: SideTime(3e-4, (3e-4, 4e-4))}
    monkeypatch.setattr(mobilenet_blocks, "alternate", lambda measures, rounds: times)
    _, line, mean = mobilenet_blocks.run(Options(skip=1, shapes=1, trials=8, seeds=(3,)))
    assert searched == [f"{name}, 8 trials, seed 3" for name in ("block", "expand", "filter", "project")]
    assert (line["case"], line["seed"]) == ("block 3: 56x56 24->144->24 stride 1", 3)
    assert (line["peer"], line["ratio"]) == (APART, pytest.approx(1.5))
    assert (line["prologue_ms"], line["peer_prologue_ms"]) == (2.0, None)
    assert mean["ratio"] == line["ratio"]
    assert mean_of([])["ratio"] is None
