"""Labels of classes, and the scores of two classes of which a model computes one."""

from __future__ import annotations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.node_helpers.scores import transform_scores
from metasched.graph.site import NodeSite
from metasched.graph.text import declare_buffer, real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass


@dataclass(frozen=True, eq=False)
class ClassLabels:
    """The labels of a classifier's classes; `numbers` is None where they are texts."""

    count: int
    numbers: Array | None

    @staticmethod
    def of(site: NodeSite, integers: str, texts: str) -> ClassLabels:
        """The labels in a node's attributes. Raises Unsupported for texts that are used."""
        given, said = site.attribute(integers, ()), site.attribute(texts, ())
        if len(given):
            return ClassLabels(len(given), np.array(given, np.int64))
        if len(said) and site.wants(0):
            raise Unsupported(
                "its labels are texts, which are no elements of arrays here: train with classes that are numbers, or "
                "remove the output of labels from the model and take the largest of the scores"
            )
        return ClassLabels(len(said), None)

    def of_positions(self, site: NodeSite, positions: GraphValue) -> GraphValue | None:
        """The labels of classes by their numbers from 0 on."""
        if self.numbers is None:
            return None
        if np.array_equal(self.numbers, np.arange(len(self.numbers))):
            return positions
        table = site.constant(self.numbers)
        place = f"min(max(P[i0], 0), {len(self.numbers) - 1})"
        return site.single([f"Y[i0] = V[{place}]"], positions.type, P=positions, V=table)

    def of_one_score(self, site: NodeSite, scores: GraphValue, threshold: float) -> GraphValue | None:
        """The second label where the last of a row's scores is more than a number, and the first one elsewhere.

        Where there is one label, they are 1 and 0, as runtimes have it.
        """
        if self.numbers is None:
            return None
        rows, count = scores.shape
        text = f"Y[i0] = 1 if A[i0, {count - 1}] > {real(threshold)} else 0"
        one = site.single([text], ValueType(DType.I64, (rows,)), A=scores)
        return one if self.count == 1 else self.of_positions(site, one)

    def of_largest(self, site: NodeSite, scores: GraphValue) -> GraphValue | None:
        """The label of the largest of a row's scores; the first one of equal ones."""
        if self.numbers is None:
            return None
        rows, classes = scores.shape
        stages = [
            declare_buffer("V", ValueType(scores.type.dtype, (rows,))),
            f"V[i0], Y[i0] = argmax[r < {classes}](A[i0, r])",
        ]
        return self.of_positions(site, site.single(stages, ValueType(DType.I64, (rows,)), A=scores))


def second_class_scores(site: NodeSite, score: GraphValue, transform: str, *, is_share: bool) -> GraphValue:
    """The scores of two classes, (rows, 2), from that of the second, (rows, 1).

    The first one has the same with the other sign; without a transform, and `is_share`, what is missing to one.
    """
    takes_rest = transform == "PROBIT" or (is_share and transform == "NONE")
    other = "1.0 - A[i0, 0]" if takes_rest else "-A[i0, 0]"
    text = f"Y[i0, i1] = A[i0, 0] if i1 == 1 else {other}"
    both = site.single([text], ValueType(score.type.dtype, (score.shape[0], 2)), A=score)
    return transform_scores(site, both, transform)
