"""Running rules on programs, and checking what comes of it in machine code."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

import metasched as ms
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Func
from metasched.ir.validate import validate
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.space.registry import RULES
from metasched.space.rule import Outcome
from metasched.space.source import FromRules
from metasched.target import Target

TARGET = Target.detect(threads=2)


def rule(name: str) -> ms.Rule:
    found = RULES.get(name)
    assert isinstance(found, ms.Rule)
    return found


def apply(text: str, *names: str | ms.Rule, seed: int = 0, **params: int) -> tuple[ms.Schedule, list[Outcome]]:
    """A draw from the space of these rules, and what each did."""
    rules = tuple(rule(n) if isinstance(n, str) else n for n in names)
    sch = ms.Schedule(ms.parse_program(text, **params), TARGET, seed=seed)
    return sch, list(FromRules(rules).run(sch))


def reasons(text: str, name: str | ms.Rule, **params: int) -> dict[str, str | None]:
    """Per block, why a rule was not applied; None where it was."""
    _, outcomes = apply(text, name, **params)
    return {o.block: o.reason for o in outcomes}


def correct(sch: ms.Schedule) -> None:
    """The machine code gives the program's result, and the trace replays to the same program."""
    validate(sch.func)
    args, expected = _case(sch.program.func)
    got = Kernel(build(sch.func, TARGET))(*args)
    for x, y in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
        np.testing.assert_array_equal(x, y)
    assert ms.parse_trace(str(sch.trace)).apply_to(sch.program).func == sch.func


@lru_cache(maxsize=4)
def _case(func: Func) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Arguments of small integers and what the reference gives: the same for every schedule of a program."""
    rng = np.random.default_rng(0)
    args = [rng.integers(-4, 5, [as_int(n) or 0 for n in b.shape]).astype(b.dtype.numpy) for b in func.inputs]
    results = reference(func)(*args)
    case = tuple(args), results if isinstance(results, tuple) else (results,)
    for array in (*case[0], *case[1]):
        array.flags.writeable = False
    return case
