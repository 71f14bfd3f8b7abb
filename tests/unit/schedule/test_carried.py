"""Carried loops as they are run, for lowering and for estimates alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.cost.expectation import expectation_of, least_cycles
from metasched.errors import BuildError
from metasched.ir import query
from metasched.ir.nodes import LoopKind
from metasched.ir.printer import print_expr
from metasched.lang import parse_program
from metasched.schedule.carried import in_carried_form
from metasched.target import Target
from tests.unit.schedule.primitives.test_carry import ROWS, carried

HERE = Target.detect(threads=1)


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("k <= i", "Y[b, i - 1, j] + X[b, i, j] if i > 0 else X[b, i, j]"),
        ("k < i", "Y[b, i - 1, j] + X[b, i - 1, j] if i > 0 else 0.0"),
    ],
)
def test_an_element_goes_on_from_the_one_before(condition: str, value: str) -> None:
    func = in_carried_form(carried(ROWS.replace("k <= i", condition)).func)
    assert print_expr(query.find_block(func, "Y").store.value) == value
    assert [(loop.var, loop.kind) for loop in query.loops(func)] == [(name, LoopKind.SERIAL) for name in "bij"]


def test_it_takes_a_step_for_each_element_and_sums_of_many_terms_say_nothing_of_it() -> None:
    sch = carried(ROWS.replace("N=9", "N=300"))
    sch.annotate(sch.get_block("Y"), "blocked_sum", 8)
    text = print_kernel(lower(sch.func, HERE))
    assert text.count("range(300)") == 1
    assert "acc" not in text


def test_estimates_grow_with_the_elements_and_not_with_their_square() -> None:
    def expected(elements: int) -> float:
        return expectation_of(carried(ROWS.replace("N=9", f"N={elements}")).func, HERE).cycles

    assert expected(4000) < 12 * expected(400)


def test_the_least_that_a_program_takes_is_known_of_what_is_not_carried_yet() -> None:
    def least(elements: int) -> float:
        return least_cycles(parse_program(ROWS, N=elements).func, HERE)

    assert least(4000) == pytest.approx(10 * least(400))


def test_what_is_no_running_reduction_any_more_is_not_built() -> None:
    func = carried().func
    block = query.find_block(func, "Y")
    changed = query.replace_stmt(func, block, replace(block, init=None))
    with pytest.raises(BuildError, match="carried nest changed"):
        lower(changed, HERE)
