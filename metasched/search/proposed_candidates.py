"""What a strategy proposed: candidates of arms that there are, each a row that its arm can have."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from metasched.errors import MetaschedError
from metasched.search.space_protocol import Arms, Candidate, ProposesInParts, Strategy

_INT64 = range(-(1 << 63), 1 << 63)


def proposed_by(strategy: Strategy, count: int, arms: Arms) -> Iterator[list[Candidate]]:
    """What a strategy proposes, a part as soon as it is chosen, arms and rows as Python's integers: a row may be a list
    or an array.

    Of more than `count` the first are taken: a budget is looked at once a batch. Raises MetaschedError for what are no
    candidates, and for one that is none of these arms.
    """
    left = count
    for part in _parts_of(strategy, count):
        made = [_of_arms(strategy, candidate, arms) for candidate in part[:left]]
        _require_support(strategy, made, arms)
        left -= len(made)
        yield made


def _parts_of(strategy: Strategy, count: int) -> Iterator[Sequence[Candidate]]:
    if not isinstance(strategy, ProposesInParts):
        yield _require_candidates(strategy, strategy.propose(count), "`propose` returns a list")
        return
    parts: object = strategy.propose_in_parts(count)
    contract = "`propose_in_parts` yields lists"
    if not isinstance(parts, Iterable):
        _refuse_kind(strategy, parts, contract)
    for part in parts:
        yield _require_candidates(strategy, part, contract)


def _require_candidates(strategy: Strategy, found: object, contract: str) -> Sequence[Candidate]:
    if not isinstance(found, list | tuple) or not all(isinstance(one, Candidate) for one in found):
        _refuse_kind(strategy, found, contract)
    return found


def _refuse_kind(strategy: Strategy, found: object, contract: str) -> NoReturn:
    raise MetaschedError(
        f"the strategy {type(strategy).__name__} proposed {found!r}; {contract} of `Candidate`s, and none where it "
        "finds nothing new"
    )


def _of_arms(strategy: Strategy, candidate: Candidate, arms: Arms) -> Candidate:
    try:
        arm, row = operator.index(candidate.arm), tuple(map(operator.index, candidate.row))
    except TypeError:
        _refuse(strategy, candidate, "an arm is an integer, and a row a tuple of integers")
    if arm not in range(len(arms)):
        _refuse(strategy, candidate, f"there are arms 0 to {len(arms) - 1}", "the methods of `arms` give their numbers")
    columns = arms[arm].columns
    if len(row) != len(columns):
        _refuse(strategy, candidate, f"a row of arm {arm} has {len(columns)} numbers: {', '.join(columns) or 'none'}")
    if not all(number in _INT64 for number in row):
        _refuse(strategy, candidate, "a number of a row fits 64 bits")
    return replace(candidate, arm=arm, row=row)


def _require_support(strategy: Strategy, candidates: Sequence[Candidate], arms: Arms) -> None:
    """All rows of an arm at once: repairing leaves a row that is in the support as it is."""
    by_arm: defaultdict[int, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_arm[candidate.arm].append(candidate)
    for arm, members in by_arm.items():
        rows = np.array([member.row for member in members], np.int64).reshape(len(members), -1)
        repaired = arms[arm].repair(rows)
        for member, row in zip(members, repaired.tolist(), strict=True):
            if member.row != tuple(row):
                reason = f"the row is not in the arm's support, and {row} is near it"
                _refuse(strategy, member, reason, "`arm.repair(rows)` moves rows into the support")


def _refuse(strategy: Strategy, candidate: Candidate, reason: str, hint: str = "") -> NoReturn:
    text = f"the strategy {type(strategy).__name__} proposed {candidate!r}: {reason}"
    raise MetaschedError(text, hint=hint)
