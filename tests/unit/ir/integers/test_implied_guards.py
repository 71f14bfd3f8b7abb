"""Guards that other guards imply."""

from __future__ import annotations

from metasched.ir.integers.affine import const
from metasched.ir.integers.implied_guards import drop_implied_guards
from metasched.ir.nodes import Binary, BinOp, Expr, Var

RANGES = {"s": const(2), "j": const(16), "r": const(4)}
S, J, R = Var("s"), Var("j"), Var("r")


def below(value: Expr, limit: int) -> Expr:
    return Binary(BinOp.LT, value, const(limit))


def kept(*guards: Expr, reduced: str = "") -> tuple[Expr, ...]:
    return drop_implied_guards(guards, RANGES, frozenset(reduced))


def test_an_inner_tile_is_inside_where_its_outer_loops_are() -> None:
    outer, whole = below(S, 1), below(S * 16 + J, 16)
    assert kept(whole, outer) == (outer,)
    assert kept(outer, whole) == (outer,)


def test_a_tile_that_goes_over_the_end_stays_guarded() -> None:
    guards = (below(S * 16 + J, 15), below(S, 1))
    assert kept(*guards) == guards


def test_a_factor_that_is_no_whole_number_says_nothing() -> None:
    guards = (below(S * 3 + J, 18), below(S * 2, 3))
    assert kept(*guards) == guards


def test_of_equals_in_effect_one_stays() -> None:
    assert len(kept(below(S, 1), below(S * 2, 2))) == 1


def test_elements_are_left_out_by_their_own_guards_only() -> None:
    elements, mixed = below(S * 16, 16), below(S * 2 + R, 2)
    assert kept(elements, mixed) == (mixed,)
    assert kept(elements, mixed, reduced="r") == (elements, mixed)


def test_terms_are_left_out_by_what_leaves_out_their_elements() -> None:
    terms, mixed = below(R * 2, 4), below(R * 2 + S, 3)
    assert kept(terms, mixed, reduced="r") == (mixed,)
