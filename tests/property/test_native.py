"""Random schedules, compiled to machine code, give the reference's result: on one thread and on several."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from metasched.ir.nodes import Func
from metasched.reference.interpreter import interpret
from metasched.reference.state import new_state, outputs
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.target import Target
from tests.property import test_lowering as lowering
from tests.support.nests import random_inputs

WIDE = Target.detect(threads=3)
NARROW = Target.detect(threads=1).without(f for f in WIDE.features if f.startswith("avx") or f == "fma")


@pytest.mark.parametrize("target", [WIDE, NARROW], ids=["wide", "narrow"])
@settings(max_examples=settings.default.max_examples * 2 // 3)
@given(func=lowering.products())
def test_compiled_products_agree_with_the_reference(target: Target, func: Func) -> None:
    inputs = random_inputs(func)
    state = new_state(func, dict(zip((b.name for b in func.inputs), inputs, strict=True)), {})
    interpret(func, state)
    (expected,) = outputs(func, state)
    kernel = Kernel(build(func, target))
    np.testing.assert_array_equal(kernel(*inputs), expected)
