"""Random schedules, compiled to machine code, give the reference's result: on one thread and on several."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "backend"))

import test_lowering as lowering
from nests import random_inputs

from metasched.backend.kernel import Kernel, build
from metasched.backend.reference_interpreter import interpret
from metasched.backend.reference_state import new_state, outputs
from metasched.backend.target import Target
from metasched.ir.nodes import Func

WIDE = Target.detect(threads=3)
NARROW = Target.detect(threads=1).without(f for f in WIDE.features if f.startswith("avx") or f == "fma")


@pytest.mark.parametrize("target", [WIDE, NARROW], ids=["wide", "narrow"])
@given(func=lowering.products())
def test_compiled_products_agree_with_the_reference(target: Target, func: Func) -> None:
    inputs = random_inputs(func)
    state = new_state(func, dict(zip((b.name for b in func.inputs), inputs, strict=True)), {})
    interpret(func, state)
    (expected,) = outputs(func, state)
    kernel = Kernel(build(func, target))
    np.testing.assert_array_equal(kernel(*inputs), expected)
