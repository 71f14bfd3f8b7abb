"""What calls of a bucket take as functions of their sizes, so that no model is read for a size.

A number that depends on sizes is one of them, or a sum of products of them, in nearly all models; a divisor is one over
such a number. So it is worked out from the corners of a bucket, exactly, and compared with the model at other sizes:
neighbours among them, which tells apart what rounds (`size // 2`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from metasched.dtypes import DType
from metasched.graph.buckets.comparison import NotAlike
from metasched.graph.buckets.masking import CallSizes
from metasched.graph.value_type import ValueType
from metasched.runtime.export.network_loader import NumberKind
from metasched.support.data_classes import dataclass

# The sizes of a bucket.
Ranges = Mapping[str, range]


@dataclass(frozen=True)
class SizeForm:
    """A number as a function of sizes: the sum of products of them, each with its factor.

    `kind` says what is made of the sum.
    """

    kind: NumberKind
    terms: tuple[tuple[Fraction, tuple[str, ...]], ...]

    def evaluate(self, sizes: Mapping[str, int]) -> float:
        """The number at some sizes."""
        return self.kind.convert(self.total(sizes))

    def total(self, sizes: Mapping[str, int]) -> Fraction:
        """The sum at some sizes."""
        total = Fraction(0)
        for factor, names in self.terms:
            for name in names:
                factor *= sizes[name]
            total += factor
        return total

    def to_json(self) -> list[Any]:
        """The form as JSON."""
        return [self.kind.value, [[f.numerator, f.denominator, list(names)] for f, names in self.terms]]

    @classmethod
    def from_json(cls, said: Sequence[Any]) -> SizeForm:
        """The form that `to_json` gave."""
        kind, terms = said
        return cls(NumberKind(kind), tuple((Fraction(up, down), tuple(names)) for up, down, names in terms))


_NUMBERS = (NumberKind.FLOAT, NumberKind.INVERSE, NumberKind.INVERSE32)
# The sums that numbers are of.
_UNDONE: Mapping[NumberKind, Callable[[float], Fraction]] = {
    NumberKind.WHOLE: Fraction,
    NumberKind.FLOAT: Fraction,
    NumberKind.INVERSE: lambda value: (1 / Fraction(value)).limit_denominator(1 << 20),
    NumberKind.INVERSE32: lambda value: (1 / Fraction(value)).limit_denominator(1 << 10),
}


@dataclass(frozen=True)
class CallForms:
    """What calls of a bucket take and give, by their sizes: the parts of `CallSizes`."""

    inputs: Mapping[str, tuple[ValueType, tuple[SizeForm, ...]]]
    more: tuple[tuple[SizeForm, ...], ...]
    outputs: tuple[tuple[tuple[tuple[int, SizeForm], ...], ...], ...]

    def evaluate(self, sizes: Mapping[str, int]) -> CallSizes:
        """The sizes and numbers that a call of some sizes takes."""

        def whole(form: SizeForm) -> int:
            return int(form.evaluate(sizes))

        return CallSizes(
            {name: ValueType(type_.dtype, tuple(map(whole, dims))) for name, (type_, dims) in self.inputs.items()},
            tuple(np.array([form.evaluate(sizes) for form in forms], forms[0].kind.dtype) for forms in self.more),
            tuple(
                tuple(tuple((large, whole(form)) for large, form in factors) for factors in dims)
                for dims in self.outputs
            ),
        )


def forms_to_json(forms: CallForms) -> dict[str, Any]:
    """Forms as JSON: of each input its element type and dimensions, of what follows each number, of each output each
    dimension as factors.
    """
    return {
        "inputs": {
            name: [type_.dtype.numpy.name, [form.to_json() for form in dims]]
            for name, (type_, dims) in forms.inputs.items()
        },
        "more": [[form.to_json() for form in one] for one in forms.more],
        "outputs": [
            [[[large, form.to_json()] for large, form in factors] for factors in dims] for dims in forms.outputs
        ],
    }


def forms_of(said: Mapping[str, Any]) -> CallForms:
    """What `forms_to_json` was given."""
    return CallForms(
        {
            name: (ValueType(_dtype(dtype), (0,) * len(dims)), tuple(map(SizeForm.from_json, dims)))
            for name, (dtype, dims) in said["inputs"].items()
        },
        tuple(tuple(map(SizeForm.from_json, one)) for one in said["more"]),
        tuple(
            tuple(tuple((large, SizeForm.from_json(form)) for large, form in factors) for factors in dims)
            for dims in said["outputs"]
        ),
    )


def _dtype(name: str) -> DType:
    return next(dtype for dtype in DType if dtype.numpy.name == name)


def call_forms(sizes_of: Callable[[Mapping[str, int]], CallSizes | None], bucket: Ranges) -> CallForms:
    """The forms of a bucket of these sizes, each of which is 2 or more unless there is no other.

    Raises NotAlike, which says why, where there are none.
    """
    wide = {name: sizes for name, sizes in bucket.items() if len(sizes) > 1}
    fixed = {name: sizes[0] for name, sizes in bucket.items() if len(sizes) == 1}
    corners = _combinations({name: (sizes[0], sizes[-1]) for name, sizes in wide.items()})
    found = [_require_sizes(sizes_of, {**fixed, **corner}) for corner in corners]
    first = found[0]
    if any(array.ndim != 1 or array.dtype not in (np.int64, np.float64) for one in found for array in one.more):
        raise NotAlike("a constant of the model depends on sizes")

    def form(values: Iterable[float], whole: bool) -> SizeForm:
        return _form(list(values), corners, wide, (NumberKind.WHOLE,) if whole else _NUMBERS)

    made = CallForms(
        {
            name: (type_, tuple(form((one.inputs[name].shape[d] for one in found), True) for d in range(type_.rank)))
            for name, type_ in first.inputs.items()
        },
        tuple(
            tuple(form((one.more[n][k].item() for one in found), array.dtype == np.int64) for k in range(len(array)))
            for n, array in enumerate(first.more)
        ),
        tuple(
            tuple(
                tuple(
                    (large, form((one.outputs[n][d][k][1] for one in found), True))
                    for k, (large, _) in enumerate(factors)
                )
                for d, factors in enumerate(dims)
            )
            for n, dims in enumerate(first.outputs)
        ),
    )
    for sizes in _check_sizes(bucket):
        if not _equal(made.evaluate(sizes), _require_sizes(sizes_of, sizes)):
            raise NotAlike(f"a number in the model is no sum of products of sizes, seen at {_said(sizes)}")
    return made


def _require_sizes(sizes_of: Callable[[Mapping[str, int]], CallSizes | None], sizes: Mapping[str, int]) -> CallSizes:
    found = sizes_of(sizes)
    if found is None:
        raise NotAlike(f"{_said(sizes)} has a network of its own")
    return found


def _form(
    values: Sequence[float], corners: Sequence[Mapping[str, int]], wide: Ranges, kinds: Sequence[NumberKind]
) -> SizeForm:
    """The form through values at the corners. Raises NotAlike where there is none."""
    for kind in kinds:
        if kind in (NumberKind.INVERSE, NumberKind.INVERSE32) and not all(values):
            continue
        made = SizeForm(kind, _terms([_UNDONE[kind](value) for value in values], wide))
        is_one = kind is NumberKind.FLOAT and len(set(values)) == 1
        fits = all(made.evaluate(corner) == value for corner, value in zip(corners, values, strict=True))
        if fits and (is_one or _is_whole(made, wide)):
            return made
    raise NotAlike(f"a number in the model is {' and '.join(map(str, values))} at the ends of a bucket")


def _combinations(sizes: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Each with one of the sizes of every name."""
    return [dict(zip(sizes, found, strict=True)) for found in itertools.product(*sizes.values())]


def _is_whole(form: SizeForm, wide: Ranges) -> bool:
    """Whether a sum is whole at all sizes of a bucket: it is where it is at the first two of each (`h / 2` of even
    ones).
    """
    first = _combinations({name: sizes[:2] for name, sizes in wide.items()})
    return all(form.total(sizes).denominator == 1 for sizes in first)


def _terms(values: Sequence[Fraction], wide: Ranges) -> tuple[tuple[Fraction, tuple[str, ...]], ...]:
    """The sum of products that has these values at the corners, in the order of their product."""
    if not wide:
        return ((values[0], ()),)
    (name, sizes), *others = wide.items()
    low, high = sizes[0], sizes[-1]
    half = len(values) // 2
    rest = dict(others)
    slope = [(b - a) / (high - low) for a, b in zip(values[:half], values[half:], strict=True)]
    base = [a - s * low for a, s in zip(values[:half], slope, strict=True)]
    with_it = [(factor, (name, *names)) for factor, names in _terms(slope, rest)]
    return tuple((factor, names) for factor, names in (*_terms(base, rest), *with_it) if factor)


def _check_sizes(bucket: Ranges) -> Iterator[dict[str, int]]:
    """Sizes besides the corners: next to one end, which tells even from odd, and between them."""
    yield {name: sizes[:2][-1] for name, sizes in bucket.items()}
    yield {name: sizes[(len(sizes) - 1) // 3] for name, sizes in bucket.items()}


def _equal(one: CallSizes, two: CallSizes) -> bool:
    return (
        dict(one.inputs) == dict(two.inputs)
        and one.outputs == two.outputs
        and len(one.more) == len(two.more)
        and all(np.array_equal(a, b) for a, b in zip(one.more, two.more, strict=True))
    )


def _said(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in sizes.items())
