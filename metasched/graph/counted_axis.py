"""A dimension of which only a call knows how many elements there are: it has room for all that there may be."""

from __future__ import annotations

from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class CountedAxis:
    """The dimension of an output of a network that has so many elements as another output says.

    Attributes:
        label: that of the other output, one whole number, which calls do not return.
        axis: the dimension.

    """

    label: str
    axis: int
