"""Fast filtering by the method of Cook and Toom: the matrices of F(m, r), by exact rational arithmetic.

F(m, r) computes m results of a filter with r coefficients, `y[k] = sum[j](d[k + j] * g[j])`, from `n = m + r - 1`
products instead of `m * r` (Winograd 1980; Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks",
section 4.1):

    y = A^T ((G g) * (B^T d))

A polynomial product is found from its values at n points, one of them infinity, and filtering is that product
transposed (Barabasz, Anderson, Soodhalter and Gregg 2020, "Error Analysis and Improving the Accuracy of Winograd
Convolution for Deep Neural Networks", section 2). At the finite points `p[i]`, with `N[i] = prod[j != i](p[i] - p[j])`:

    A^T[k, i] = p[i]**k        G[i, k] = p[i]**k / N[i]        B^T[i, k] = coefficient k of prod[j != i](x - p[j])

At infinity the first two are 1 at the last `k` and 0 elsewhere; the third are the coefficients of `prod[j](x - p[j])`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import prod

from metasched.support.data_classes import dataclass

Matrix = tuple[tuple[Fraction, ...], ...]

# A ninth needs a point further out: errors are then five times as large, and more than a hundred times along two axes.
MOST_PRODUCTS = 8


@dataclass(frozen=True)
class FastFilter:
    """The matrices of F(m, r): `data` is B^T, of `n` by `n`; `filter` is G, `n` by `r`; `result` is A^T, `m` by `n`."""

    data: Matrix
    filter: Matrix
    result: Matrix

    @property
    def products(self) -> int:
        return len(self.data)

    def amplification(self, norm: int) -> float:
        """How much larger what is added up is than the terms of the filter as it is, for data of about equal sizes.

        That is `max_k norm_i(A^T[k, i] norm(G[i]) norm(B^T[i]))` over the same norm of r ones. The 1-norm is that of
        theorem 1 of Barabasz et al. for operands of at most 1, whatever their signs; the 2-norm is the root mean square
        for operands of independent signs. Along two axes the two are multiplied.
        """
        sizes = [_norm(g, norm) * _norm(d, norm) for g, d in zip(self.filter, self.data, strict=True)]
        largest = max(_norm([float(a) * s for a, s in zip(row, sizes, strict=True)], norm) for row in self.result)
        return largest / _norm([1.0] * len(self.filter[0]), norm)


@lru_cache(maxsize=64)
def fast_filter(results: int, coefficients: int) -> FastFilter:
    """The matrices of F(results, coefficients), for at most `MOST_PRODUCTS` products in all."""
    count = results + coefficients - 1
    assert 1 <= count <= MOST_PRODUCTS
    points = _points(count - 1)
    scales = [prod((p - other for other in points if other != p), start=Fraction(1)) for p in points]
    data = [(*_expand_roots([other for other in points if other != p]), Fraction(0)) for p in points]
    filters = [tuple(p**k / scale for k in range(coefficients)) for p, scale in zip(points, scales, strict=True)]
    values = [tuple(p**k for p in points) for k in range(results)]
    return FastFilter(
        (*data, _expand_roots(points)),
        (*filters, tuple(Fraction(k == coefficients - 1) for k in range(coefficients))),
        tuple((*row, Fraction(k == results - 1)) for k, row in enumerate(values)),
    )


def _norm(row: Sequence[Fraction | float], norm: int) -> float:
    return float(sum(abs(float(x)) ** norm for x in row) ** (1 / norm))


def _points(count: int) -> list[Fraction]:
    """0, 1, -1, 2, -2, 1/2, -1/2, 4, ...: powers of two, whose products are exact, the ones nearest to 1 first."""
    return list(islice(_powers_of_two(), count))


def _powers_of_two() -> Iterator[Fraction]:
    yield Fraction(0)
    yield from (Fraction(1), Fraction(-1))
    for exponent in range(1, MOST_PRODUCTS):
        for power in (Fraction(2) ** exponent, Fraction(1, 2) ** exponent):
            yield from (power, -power)


def _expand_roots(roots: list[Fraction]) -> tuple[Fraction, ...]:
    """The coefficients of `prod(x - root)`, that of the lowest power first."""
    out = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *out], [*(-root * c for c in out), Fraction(0)]
        out = [a + b for a, b in zip(shifted, scaled, strict=True)]
    return tuple(out)
