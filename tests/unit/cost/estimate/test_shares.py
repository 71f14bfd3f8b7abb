"""The share of instances that a condition leaves is what counting them gives, and so is what unrolled code knows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from metasched.cost.estimate.footprint import Ranges
from metasched.cost.estimate.shares import CopyShares, Shares
from metasched.cost.program.conditions import condition_of
from metasched.cost.program.index import Table
from metasched.cost.program.nest import LoopInfo, Statement
from metasched.cost.program.operations import Operations
from metasched.dtypes import DType
from metasched.ir.integers.evaluate import Evaluator, evaluate
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Load, LoopKind, Unary, UnOp, Var

H, W, R = Var("h"), Var("w"), Var("r")
LOOPS = ("h", "w", "r")


def both(op: BinOp, *sides: Expr) -> Expr:
    return Binary(op, sides[0], sides[1])


def compared(op: BinOp, a: Expr, b: int) -> Expr:
    return Binary(op, a, Const(b))


def shares_of(condition: Expr, extents: tuple[int, ...], unrolled: tuple[str, ...] = ()) -> tuple[float, CopyShares]:
    table = Table()
    slots = [table.slot(Const(extent)) for extent in extents]
    loops = tuple(
        LoopInfo(var, slot, LoopKind.SERIAL, None, False, True, var == "r")
        for var, slot in zip(LOOPS, slots, strict=True)
    )
    found = condition_of(condition, {var: depth for depth, var in enumerate(LOOPS)}, table)
    sizes = [np.asarray(value, np.float32) for value in Evaluator(table.exprs)({})]
    statement = Statement("s", loops, (), (), (), Operations(0, 0, 0, 0, 0, 1.0), (), True, False, 0, None, False)
    copied = np.ones((3, 1), np.float32)
    for n, var in enumerate(LOOPS):
        if var in unrolled:
            copied[n] = extents[n]
    shares = Shares(Ranges(statement, sizes, 1), copied, tuple(loop.reduces for loop in loops))
    return float(shares.holding_share(found)[0]), shares.copy_shares(found)


def counted(condition: Expr, extents: tuple[int, ...]) -> float:
    each = product(*(range(extent) for extent in extents))
    return float(np.mean([bool(evaluate(condition, dict(zip(LOOPS, at, strict=True)))) for at in each]))


def counted_copies(condition: Expr, extents: tuple[int, ...], unrolled: tuple[str, ...]) -> tuple[float, float]:
    """The shares of the copies in which the condition holds at every place, and at none."""
    always = never = copies = 0
    for at in product(*(range(e) if v in unrolled else (0,) for v, e in zip(LOOPS, extents, strict=True))):
        inside = product(*((a,) if v in unrolled else range(e) for v, e, a in zip(LOOPS, extents, at, strict=True)))
        holds = [bool(evaluate(condition, dict(zip(LOOPS, place, strict=True)))) for place in inside]
        always, never, copies = always + all(holds), never + (not any(holds)), copies + 1
    return always / copies, never / copies


PARITY = compared(BinOp.EQ, (H + R + 1) % 2, 0)
PADDED = both(BinOp.AND, compared(BinOp.GE, H + R, 1), compared(BinOp.LT, H + R, 13))
CONDITIONS = {
    "tile": compared(BinOp.LT, H * 4 + W, 42),
    "halo": compared(BinOp.GE, H + R, 2),
    "padded": PADDED,
    "dilated": compared(BinOp.GE, H + R * 6, 6),
    "dilated, of steps": compared(BinOp.LT, H * 2 + R * 8, 30),
    "parity": PARITY,
    "no parity": compared(BinOp.NE, (H + R) % 3, 0),
    "one": compared(BinOp.EQ, W, 2),
    "digits": compared(BinOp.LT, (H * 4 + W) // 8, 4),
    "either": both(BinOp.OR, compared(BinOp.LT, H, 3), compared(BinOp.GE, W, 3)),
    "not": Unary(UnOp.NOT, compared(BinOp.LE, H, 8)),
    "always": compared(BinOp.GE, H, 0),
    "never": compared(BinOp.LT, H + R, 0),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_share_is_what_counting_gives(name: str) -> None:
    extents = (12, 4, 3)
    assert shares_of(CONDITIONS[name], extents)[0] == pytest.approx(counted(CONDITIONS[name], extents), abs=0.03)


@pytest.mark.parametrize(
    ("name", "unrolled"),
    [
        ("padded", ("h",)),
        ("padded", ("r",)),
        ("padded", ("h", "r")),
        ("parity", ("h", "r")),
        ("parity", ("h",)),
        ("tile", ("w",)),
        ("halo", ("h",)),
        ("one", ("w",)),
        ("always", ()),
        ("never", ("h",)),
    ],
)
def test_what_is_known_in_unrolled_copies_is_what_counting_gives(name: str, unrolled: tuple[str, ...]) -> None:
    extents = (12, 4, 3)
    always, never = counted_copies(CONDITIONS[name], extents, unrolled)
    _, found = shares_of(CONDITIONS[name], extents, unrolled)
    assert float(found.known[0]) == pytest.approx(always, abs=0.13)
    assert float(found.excluded[0]) == pytest.approx(never, abs=0.13)
    assert float(found.evaluated[0]) == pytest.approx(1.0 - always - never, abs=0.13)


def test_loops_by_the_divisor_do_not_change_a_remainder() -> None:
    """Split by the stride, the outer loop may run: which outputs meet an input is known from the inner one."""
    split = compared(BinOp.EQ, (H * 2 + W + R) % 2, 0)
    holds, found = shares_of(split, (8, 2, 2), ("w", "r"))
    assert (holds, float(found.known[0]), float(found.excluded[0])) == (0.5, 0.5, 0.5)
    holds, rolled = shares_of(split, (8, 2, 2), ("w",))
    assert (holds, float(rolled.evaluated[0])) == (0.5, 1.0)


def test_a_remainder_of_one_number_is_known() -> None:
    assert float(shares_of(compared(BinOp.EQ, (H * 4 + 6) % 4, 2), (8, 1, 1))[1].known[0]) == 1.0
    assert float(shares_of(compared(BinOp.EQ, (H * 4 + 6) % 4, 1), (8, 1, 1))[1].excluded[0]) == 1.0


def test_a_condition_on_data_is_taken_to_hold() -> None:
    holds, found = shares_of(Binary(BinOp.LT, Load("M", (H,), DType.I64), Const(3)), (8, 1, 1))
    assert (holds, float(found.evaluated[0])) == (1.0, 1.0)
