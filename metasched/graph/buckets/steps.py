"""Steps of sizes that a model has where it has not all of a range: multiples of a number, which it is read at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from metasched.graph.buckets.size_range import SizeRange

_Ranges = Mapping[str, range]
_Sizes = Mapping[str, int]

# Models halve sizes a few times, or take them apart into patches and windows of so many.
_ODD_FACTORS = (1, 3, 5, 7)
_MOST_HALVINGS = 6


def steps_that_help(ranges: Mapping[str, SizeRange], has: Callable[[_Sizes], bool]) -> dict[str, range]:
    """The sizes in ranges of which a model has not all, in the smallest steps in which it has them; none where no step
    was found. `has` says whether it has some sizes, which takes reading it.

    A step is tried at two sizes next to each other, as one of them may be a multiple of a larger step.
    """
    whole = {name: range_.sizes for name, range_ in ranges.items()}
    for odd in _ODD_FACTORS:
        if not _has_two(_multiples(whole, odd << _MOST_HALVINGS), has):
            continue
        for halvings in range(_MOST_HALVINGS + 1):
            found = _multiples(whole, odd << halvings)
            if _has_two(found, has):
                return _without_needless(whole, found, has)
    return {}


def hint_of_steps(steps: Mapping[str, range]) -> str:
    """What to load a model with that has sizes in these steps; '' where there are none."""
    if not steps:
        return ""
    are_arguments = all(map(str.isidentifier, steps))
    said = ", ".join(f"{name}={sizes!r}" for name, sizes in steps.items()) if are_arguments else f"sizes={steps!r}"
    return f"the model has sizes in steps; load it with {said}"


def hint_of_sizes(ranges: Mapping[str, SizeRange], has: Callable[[_Sizes], bool]) -> str:
    """What to know of a model that has the smallest sizes of ranges and not the largest; '' of another."""
    smallest, largest = ({name: end(range_.sizes) for name, range_ in ranges.items()} for end in (min, max))
    if not has(smallest) or has(largest):
        return ""
    said = [", ".join(f"{name}={size}" for name, size in sizes.items()) for sizes in (smallest, largest)]
    return (
        f"the model has the sizes {said[0]}, and not {said[1]}: its exporter may have taken a size for a number; load "
        "it with the sizes that it was exported with"
    )


def _has_two(ranges: _Ranges, has: Callable[[_Sizes], bool]) -> bool:
    """Whether a model has the two largest sizes of all ranges."""
    return all(has({name: sizes[-2:][-number] for name, sizes in ranges.items()}) for number in (1, 0))


def _without_needless(whole: _Ranges, found: _Ranges, has: Callable[[_Sizes], bool]) -> dict[str, range]:
    """Of ranges in steps those along which the model has not all sizes."""
    needed = {name: sizes for name, sizes in found.items() if sizes != whole[name]}
    for name in list(needed):
        others = {other: needed.get(other, sizes)[-1:] for other, sizes in whole.items() if other != name}
        if _has_two({**others, name: whole[name]}, has):
            del needed[name]
    return needed


def _multiples(whole: _Ranges, step: int) -> dict[str, range]:
    """The multiples of a number in each range; where there are not two, of half of it, and so on."""
    return {name: next(_fewer_and_fewer_steps(sizes, step)) for name, sizes in whole.items()}


def _fewer_and_fewer_steps(sizes: range, step: int) -> Iterator[range]:
    """Multiples in a range of a number, of half of it, and so on, where there are two or more; at last the range."""
    while step > 1:
        first = next((size for size in sizes if size % step == 0), None)
        if first is not None:
            found = range(first, sizes.stop, math.lcm(sizes.step, step))
            if len(found) > 1:
                yield found
        if step % 2:
            break
        step //= 2
    yield sizes
