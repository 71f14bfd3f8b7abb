"""Branches that data choose: each is a loop of at most one step, so that what is not chosen is not computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.loop_building import LoopFrame, StepResults, looped
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite, RunBody

Results = tuple[GraphValue, ...]
_BRANCHES = ("then_branch", "else_branch")


@node_type("If")
def branch(site: NodeSite) -> Results:
    """The branch that a condition asks for, which a call computes; both make values of the same types."""
    condition = site.operand(0)
    if condition.type.size != 1:
        raise Unsupported(f"its condition is {condition.type}, and not one element")
    return branched(site, condition, [site.graphs.branch(site.required(name)) for name in _BRANCHES])


def branched(site: NodeSite, condition: GraphValue, runs: Sequence[RunBody]) -> Results:
    """What one of two graphs without inputs computes: the first where a condition of one element holds.

    Raises Unsupported where they do not make values of the same types.
    """
    with site.builder.body():  # to see of what types they are
        made = [run([], "types") for run in runs]
    for one, other in zip(*made, strict=True):
        if one.type != other.type:
            raise Unsupported(f"data choose between {one.type} and {other.type}")
    # The second loop takes its step where the first does not, so nobody sees what the first begins with.
    found: Results = tuple(site.constant(np.zeros(x.shape, x.type.dtype.numpy), x.type.dtype) for x in made[0])
    for wanted, run in zip((condition, site.elementwise("not {0}", condition)), runs, strict=True):
        found = _if(site, wanted, run, found)
    return found


def _if(site: NodeSite, condition: GraphValue, run: RunBody, otherwise: Results) -> Results:
    """What a branch makes where a condition holds."""
    frame = LoopFrame(otherwise, most=1, condition=condition)
    return looped(site, frame, lambda name, *_: StepResults(run([], name), ())).states
