"""Decisions of random variables by address, for tests of rules."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.lang.instructions import HOLE, Decision
from metasched.schedule.distributions.factors import Factors
from metasched.schedule.handlers import Site


def tile(*inner: int) -> Decision:
    return (HOLE, *inner)


class Decided:
    """Takes the decisions of a way, and the first or smallest ones at all other addresses."""

    def __init__(self, decisions: Mapping[str, Decision]) -> None:
        self.left = dict(decisions)

    def decide(self, site: Site) -> Decision:
        if site.address in self.left:
            return self.left.pop(site.address)
        dist = site.dist
        if not dist.structural and dist.gives_list:
            assert isinstance(dist, Factors)
            return tile(*(1,) * dist.width)
        return dist.options()[0]
