from __future__ import annotations

import numpy as np
import pytest

from metasched.lang.instructions import Ref
from metasched.schedule.distributions.choice import ChoiceDistribution


@pytest.mark.parametrize(
    ("values", "decision", "inside"),
    [
        (("a", "b"), "a", True),
        (("a", "b"), "c", False),
        ((1, 2), True, False),
        ((True, False), 1, False),
        ((1, 2), 1.0, False),
        ((Ref("root"),), Ref("root"), True),
        ((Ref("root"),), "root", False),
    ],
)
def test_types_count(values: tuple[object, ...], decision: object, inside: bool) -> None:
    assert ChoiceDistribution(values).contains(decision) is inside  # type: ignore[arg-type]


def test_outputs_are_plain() -> None:
    assert ChoiceDistribution(("a",)).outputs("a") == ("a",)
    assert ChoiceDistribution((Ref("i_0"),)).outputs(Ref("i_0")) == ("i_0",)


def test_the_rest_of_the_interface() -> None:
    dist = ChoiceDistribution(("a", 2, Ref("i")))
    assert dist.structural
    assert dist.repair("gone") == "a"
    assert dist.neighbours(2) == ("a", Ref("i"))
    assert dist.options() == ("a", 2, Ref("i"))
    assert dist.support() == "one of 'a', 2, i"
    rng = np.random.default_rng(0)
    assert {str(dist.sample(rng)) for _ in range(50)} == {"a", "2", str(Ref("i"))}
