"""The arithmetic that a core can do at most, by what a statement computes: what efficiency is a share of."""

from __future__ import annotations

import numpy as np

from metasched.cost.core import Core
from metasched.cost.estimate.condition_cycles import running_share, share_of_terms
from metasched.cost.estimate.footprint import Array
from metasched.cost.estimate.statement import StatementView
from metasched.cost.program.nest import Statement
from metasched.target import Target


def flops_per_cycle(statement: Statement, target: Target, core: Core) -> float:
    """Operations a cycle of one core: a multiply-add for each lane of full vectors of the widest type, or those of the
    fastest tensor intrinsic that the target has for such products, whether or not the statement uses it."""
    vectors = 2.0 * core.operations * target.vector_bits / (8 * statement.computed_bytes)
    usable = (i for i in statement.intrinsics if i.features <= target.features)
    return max([vectors, *(2.0 * i.products / core.throughput(i) for i in usable)])


def domain_left(view: StatementView) -> Array:
    """Elements and terms of a statement's domain that its conditions leave: (rows,)."""
    left: Array = np.minimum(view.domain * share_of_terms(view), view.iterations * running_share(view))
    return left


def cycles_at_peak(view: StatementView) -> Array:
    """Cycles of the arithmetic of a statement's domain, were it done at its peak on all threads: (rows,).

    Terms that a condition leaves out are no part of it.
    """
    flops = domain_left(view) * view.statement.operations.flops
    least: Array = flops / (flops_per_cycle(view.statement, view.target, view.core) * max(view.target.threads, 1))
    return least
