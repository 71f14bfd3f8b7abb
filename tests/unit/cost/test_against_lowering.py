"""What the features say of registers, operands and unrolling is what lowering makes, on random tiles and targets."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metasched.compiler import lir, policy
from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower import lower
from metasched.compiler.policy import OperandOrder, operand_order, rereads, vectors_for
from metasched.cost.features import NAMES, FeatureProgram
from metasched.errors import BuildError
from metasched.ir.nodes import Const, Func, Scope
from metasched.target import Target

from .conftest import COLUMNS, dense_relu, draw_rows, put

SETS = ({"avx512f", "avx512vl"}, {"avx2", "avx"}, {"sse2"})
TARGETS = tuple(Target("any", frozenset(f), 2, 32 << 10, 1 << 20, 32 << 20) for f in SETS)
EACH = pytest.mark.parametrize("target", TARGETS, ids=lambda m: f"{m.registers} of {m.vector_bits} bits")


def in_memory() -> Func:
    symbolic = dense_relu(96, 96, 64)
    return replace(symbolic, temps=tuple(replace(b, scope=Scope.GLOBAL) for b in symbolic.temps))


def drawn(seed: int) -> np.ndarray:
    rows = draw_rows(40, seed)
    # Whole tiles: of one that is not, the parts may be in registers where it is not.
    rows[:, 1] = np.resize([1, 2, 4, 8, 12, 16, 24], len(rows))
    rows[:, 4] = np.resize([8, 60, 64], len(rows))
    return rows


def columns(rows: np.ndarray, target: Target, *names: str) -> list[np.ndarray]:
    features = FeatureProgram(in_memory(), COLUMNS, target)(rows)
    return [features[:, NAMES.index(f"s0.{name}")] for name in names]


def lowered(row: np.ndarray, target: Target) -> lir.LoopProgram:
    concrete = put(in_memory(), {name: Const(int(v)) for name, v in zip(COLUMNS, row, strict=True)})
    assert isinstance(concrete, Func)
    return lower(concrete, target)


@EACH
@pytest.mark.parametrize("seed", [3, 4])
def test_accumulators_are_in_registers_exactly_where_they_are_said_to_be(target: Target, seed: int) -> None:
    rows = drawn(seed)
    (said,) = columns(rows, target, "held")
    made = [any(a.kind is ArrayKind.REGISTER for a in lowered(row, target).arrays) for row in rows]
    assert said.astype(bool).tolist() == made
    assert 0 < sum(made) < len(made)


@EACH
def test_operands_are_read_again_exactly_where_loads_say_so(target: Target) -> None:
    """A tile that rereads has a load for each product and one for each operand that it keeps."""
    rows = drawn(5)
    held, loads, accumulators, operations = columns(
        rows, target, "held", "loads_per_operation", "accumulators", "tile_operations"
    )
    accumulators, operations = np.exp2(accumulators) - 1, np.exp2(operations) - 1
    seen = set()
    for n, row in enumerate(rows):
        if not held[n] or operations[n] > accumulators[n] + 0.5:
            continue  # a tile over several terms of the sum is not reordered term by term
        rereading = any(isinstance(node, lir.Reread) for node in lowered(row, target).walk())
        assert (loads[n] > 1.0 - 1e-3 and min(row[1], row[3] // 8) > 1) >= rereading
        if rereading:
            assert loads[n] * operations[n] > accumulators[n]
        seen.add(rereading)
    assert seen, "no tile in registers"


@EACH
def test_registers_are_as_many_as_said(target: Target) -> None:
    rows = drawn(6)
    held, said = columns(rows, target, "held", "accumulators")
    counted = 0
    for row, accumulators in zip(rows[held > 0], (np.exp2(said) - 1)[held > 0], strict=True):
        arrays = [a for a in lowered(row, target).arrays if a.kind is ArrayKind.REGISTER]
        assert max(a.size * a.dtype.bits for a in arrays) <= round(float(accumulators)) * target.vector_bits
        assert accumulators <= policy.accumulator_registers(target.registers)
        counted += 1
    assert counted


def test_the_order_of_operands_is_reread_exactly_where_the_policy_says() -> None:
    """The enumeration that lowering follows and the arrays that the cost model asks are one decision."""
    rng = np.random.default_rng(0)
    vectors, broadcasts, drawn_registers = rng.integers(1, 32, (3, 4000))
    for registers in (16, 32):
        accumulators = np.minimum(drawn_registers, registers - 1)
        said = rereads(accumulators, np.minimum(vectors, broadcasts), registers)
        orders = [operand_order(*map(int, c), registers) for c in zip(vectors, broadcasts, accumulators, strict=True)]
        made = [o in (OperandOrder.REREADING_BROADCASTS, OperandOrder.REREADING_VECTORS) for o in orders]
        assert said.tolist() == made
        assert 0 < sum(made) < len(made)
        assert set(orders) >= set(OperandOrder) - {OperandOrder.AS_WRITTEN}


def test_vectors_of_numbers_and_of_arrays_are_alike() -> None:
    lanes = np.arange(1, 200)
    for bits, register in ((8, 128), (32, 256), (32, 512), (64, 512), (16, 512)):
        floats = vectors_for(lanes.astype(np.float32), bits, register)
        assert floats.tolist() == [vectors_for(int(n), bits, register) for n in lanes]
        assert floats.tolist() == np.ceil(lanes * bits / register).tolist()


def test_the_cost_model_has_no_numbers_of_lowering_s_own() -> None:
    """What lowering decides by is in one module that both import: no constant of its name is anywhere else."""
    root = Path(policy.__file__).parents[1]
    names = {name.lstrip("_") for name in vars(policy) if name.isupper() and len(name) > 1}
    copies = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not any(name in text for name in names):
            continue
        for node in ast.walk(ast.parse(text)):
            targets = node.targets if isinstance(node, ast.Assign) else []
            found = {t.id.lstrip("_") for t in targets if isinstance(t, ast.Name)} & names
            if found and path != Path(policy.__file__):
                copies.append(f"{path}:{node.lineno}: {found}")
    assert not copies
    inside = [p for p in (root / "cost").glob("*.py") if "registers -" in p.read_text(encoding="utf-8")]
    assert not inside, "how many registers are left is what metasched/compiler/policy.py says"


def test_too_many_copies_are_refused_not_emitted() -> None:
    target = TARGETS[0]
    with pytest.raises(BuildError, match="unroll too large"):
        lowered(np.array([16, 28, 8, 48, 512, 10**6]), target)
