"""The rule that asks for tiles of weights while those before are used."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from tests.support.rulework import TARGET, correct, reasons, rule

DENSE = """
program dense[N=24, M=96, K=40](A: f32[N, K], const B: f32[K, M], const C: f32[M]) -> Y: f32[N, M]:
    T[i, j] = sum[k](A[i, k] * B[k, j])
    Y[i, j] = T[i, j] + C[j]
"""
TILES = rule("prefetch_tiles")(fewest_bytes=1024)
RULES = ["multi_level_tiling", "packing", "parallelize", TILES, "vectorize", "unroll"]


def asks(sch: ms.Schedule) -> bool:
    return "prefetch B" in print_kernel(lower(sch.func, TARGET))


def test_weights_are_asked_for_where_a_tile_is_used_for_several_rows() -> None:
    space = ms.space(ms.parse_program(DENSE), rules=RULES)
    sketch = space.sketch_near(
        {"multi_level_tiling(T)/fusion": "consumer at level 1", "packing(T)/packed": "B in panels"}
    )
    numbers = {
        "multi_level_tiling(T)/i": "[_, 1, 3, 8]",
        "multi_level_tiling(T)/j": "[_, 1, 1, 32]",
        "multi_level_tiling(T)/k": "[_, 10]",
    }
    found = {}
    for terms, outermost in ((0, 0), (1, 0), (0, 1)):
        given = {**numbers, "prefetch_tiles(T)/terms": terms, "prefetch_tiles(T)/outermost": outermost}
        trace = _decided(sketch.trace_of(sketch.sample(np.random.default_rng(0), 1)[0]), given)
        sch = trace.apply_to(sketch.program)
        correct(sch)
        found[terms, outermost] = asks(sch)
    assert found == {(0, 0): False, (1, 0): True, (0, 1): True}


def test_zeros_that_padding_is_filled_with_are_no_constant_operand() -> None:
    program = ms.parse_program(
        "program padded[N=40](X: f32[N, 8], K: f32[8, 4]) -> Y: f32[N, 4]:\n"
        "    P: f32[N + 2, 8]\n"
        "    P[i, c] = X[i - 1, c] if i >= 1 and i < N + 1 else 0\n"
        "    Y[i, o < 4] = sum[r < 3, c](P[i + r, c] * K[c, o])"
    )
    space = ms.space(program, rules=["multi_level_tiling", "compute_location", "padding", TILES], target=TARGET)
    assert not [address for address in space.addresses() if "prefetch_tiles" in address]


def test_rows_that_no_copy_has_put_together_may_be_asked_for() -> None:
    space = ms.space(ms.parse_program(DENSE), rules=RULES)
    address = "prefetch_tiles(T)/rows"
    packed, plain = (space.sketch_near({"packing(T)/packed": how}) for how in ("B in panels", "none"))
    assert address in space.addresses()
    assert address not in str(packed.trace)
    found = {}
    for ahead in (0, 4):
        given = {address: ahead, "prefetch_tiles(T)/terms": 0, "prefetch_tiles(T)/outermost": 0}
        trace = _decided(plain.trace_of(plain.sample(np.random.default_rng(0), 1)[0]), given)
        sch = trace.apply_to(plain.program)
        correct(sch)
        found[ahead] = asks(sch)
    assert found == {0: False, 4: True}


def _decided(trace: ms.Trace, values: dict[str, object]) -> ms.Trace:
    lines = []
    for line in str(trace).splitlines():
        address = line.split('@ "')[-1].split('"')[0]
        lines.append(f"{line.split(' := ')[0]} := {values[address]}" if address in values else line)
    return ms.parse_trace("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DENSE.replace("const B", "B"), "no constant operand"),
        (DENSE.replace("K=40", "K=2"), "no constant operand"),
    ],
    ids=["computed", "small"],
)
def test_what_does_not_ask(text: str, reason: str) -> None:
    assert reasons(text, "prefetch_tiles")["T"] == "it is not tiled"
    space = ms.space(ms.parse_program(text), rules=RULES)
    assert reason in space.explain()
    assert not any("prefetch_tiles" in name for name in space.addresses())
