"""The ranges of integers whose bits are combined or shifted, by those of the operands."""

from __future__ import annotations

from itertools import product

from metasched.ir.nodes import BinOp

Interval = tuple[int, int]  # inclusive

# A number is shifted by fewer places than its type has, which are 64 at most.
_MOST_PLACES = 63


def range_of_bits(op: BinOp, a: Interval, b: Interval) -> Interval:
    """Inclusive bounds of `a op b` without an end of their type, for an operation of bits or a shift.

    They may be beyond what the type holds, and then the value wraps. What is shifted by less than 0 places, or by as
    many as the type has or more, is 0, or -1 for a negative number that is shifted to the right.
    """
    if op.is_shift:
        return _shifted(op, a, b)
    if op is BinOp.BIT_AND and max(a[0], b[0]) >= 0:
        # The sign and the higher places are 0 where one operand has them so.
        return 0, min(hi for lo, hi in (a, b) if lo >= 0)
    places = max(end.bit_length() if end >= 0 else (~end).bit_length() for end in (*a, *b))
    found = [(-(2**places) if min(a[0], b[0]) < 0 else 0, 2**places - 1)]
    found += [_lowest_changed(op, one, other) for one, other in ((a, b), (b, a)) if other[0] >= 0]
    return max(lo for lo, _ in found), min(hi for _, hi in found)


def _lowest_changed(op: BinOp, number: Interval, other: Interval) -> Interval:
    """Bounds where only the lowest places of a number change: those that another one has, which is not negative."""
    places = other[1].bit_length()
    lo, hi = (end >> places << places for end in number)
    return number[0] if op is BinOp.BIT_OR else lo, hi + 2**places - 1


def _shifted(op: BinOp, a: Interval, b: Interval) -> Interval:
    fewest, most = max(b[0], 0), min(b[1], _MOST_PLACES)
    ends = [-1 if end < 0 else 0 for end in a] if b != (fewest, most) else []
    if fewest <= most:
        shift = int.__lshift__ if op is BinOp.SHIFT_LEFT else int.__rshift__
        ends += [shift(end, places) for end, places in product(a, (fewest, most))]
    if b != (fewest, most) and op is BinOp.SHIFT_LEFT:
        ends.append(0)
    return min(ends), max(ends)
