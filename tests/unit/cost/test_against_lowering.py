"""What the features say of registers is what lowering makes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower import lower
from metasched.cost.features import NAMES, FeatureProgram
from metasched.ir.nodes import Const, Func, Scope
from metasched.target import Target

from .conftest import COLUMNS, dense_relu, draw_rows, put


def test_accumulators_are_in_registers_exactly_where_they_are_said_to_be(target: Target) -> None:
    symbolic = dense_relu(96, 96, 64)
    symbolic = replace(symbolic, temps=tuple(replace(b, scope=Scope.GLOBAL) for b in symbolic.temps))
    rows = draw_rows(40, seed=3)
    rows[:, 1] = np.resize([1, 4, 8, 14, 20], len(rows))
    said = FeatureProgram(symbolic, COLUMNS, target)(rows)[:, NAMES.index("s0.held")]
    made = []
    for row in rows:
        concrete = put(symbolic, {name: Const(int(v)) for name, v in zip(COLUMNS, row, strict=True)})
        assert isinstance(concrete, Func)
        made.append(any(a.kind is ArrayKind.REGISTER for a in lower(concrete, target).arrays))
    assert said.astype(bool).tolist() == made
    assert 0 < sum(made) < len(made)
