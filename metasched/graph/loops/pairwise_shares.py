"""Probabilities of classes from those of one class against another, as LIBSVM finds them.

They are the shares p that minimise the sum over pairs of (r_ji p_i - r_ij p_j)^2 (Wu, Lin, Weng 2004, the second
approach there), found share after share, round after round, until all are near enough: each row ends by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.loops.building import LoopFrame, StepResults, add_loop
from metasched.graph.site import NodeSite
from metasched.graph.text import declare_buffer, real
from metasched.graph.value_type import ValueType

# LIBSVM's: how near shares have to be, times the number of classes; rounds at most; the least probability of a pair.
_NEAR = 0.005
_MOST_ROUNDS = 100
_LEAST = 1e-7
# Each class is some stages of a program.
_MOST_CLASSES = 32


def shares_of_classes(site: NodeSite, scores: GraphValue, classes: int, lines: tuple[Array, Array]) -> GraphValue:
    """The probability of each class, (rows, classes), from scores of pairs, (rows, pairs).

    `lines` are the two numbers of each pair that make a probability of its score: 1 / (1 + exp(a score + b)). Raises
    Unsupported for too many classes.
    """
    pairs = list(combinations(range(classes), 2))
    if classes > _MOST_CLASSES or any(len(numbers) != len(pairs) for numbers in lines):
        raise Unsupported(
            f"it has {len(lines[0])} `prob_a` and {len(lines[1])} `prob_b` for {len(pairs)} pairs of {classes} classes"
            f", of which there may be {_MOST_CLASSES}"
        )
    rows = scores.shape[0]
    squares = _squares(site, scores, classes, lines)
    shares = ValueType(scores.type.dtype, (rows, classes))
    first = site.constant(np.full(shares.shape, 1 / classes), shares.dtype)

    def step(_: str, __: GraphValue, states: Sequence[GraphValue], ___: Sequence[GraphValue]) -> StepResults:
        (before,) = states
        made, far = site.program(
            _round(rows, classes, shares.dtype), {"Y": shares, "Z": ValueType(DType.BOOL, ())}, P=before, Q=squares
        )
        return StepResults([made], [], far)

    return add_loop(site, LoopFrame([first], most=max(_MOST_ROUNDS, classes)), step).states[0]


def _squares(site: NodeSite, scores: GraphValue, classes: int, lines: tuple[Array, Array]) -> GraphValue:
    """The matrix of the sum that is minimised, (rows, classes, classes)."""
    rows, dtype = scores.shape[0], scores.type.dtype
    pair = np.zeros((classes, classes), np.int64)
    upper = np.triu_indices(classes, 1)
    pair[upper] = np.arange(len(upper[0]))
    a, b = (site.constant(numbers.astype(dtype.numpy), dtype) for numbers in lines)
    count = len(upper[0])
    matrix = ValueType(dtype, (rows, classes, classes))
    # The probability of the first class of a pair, and that of i against j.
    of_pair = f"min(max(1.0 - sigmoid(S[n, p] * A[p] + B[p]), {_LEAST}), {real(1 - _LEAST)})"
    place = f"min(max(K[min(i, j), max(i, j)], 0), {count - 1})"
    stages = [
        declare_buffer("F", ValueType(dtype, (rows, count))),
        f"F[n, p] = {of_pair}",
        declare_buffer("R", matrix),
        f"R[n, i, j] = 0.0 if i == j else F[n, {place}] if i < j else 1.0 - F[n, {place}]",
        declare_buffer("D", ValueType(dtype, (rows, classes))),
        f"D[n, t] = sum[j < {classes}](R[n, j, t] * R[n, j, t])",
        "Y[n, t, j] = D[n, t] if t == j else -R[n, j, t] * R[n, t, j]",
    ]
    return site.single(stages, matrix, S=scores, A=a, B=b, K=site.constant(pair))


def _round(rows: int, classes: int, dtype: DType) -> list[str]:
    """The stages of a round: shares `Y` after `P`, by the matrix `Q`, and whether any row was not near enough, `Z`."""
    row, of_class = ValueType(dtype, (rows,)), ValueType(dtype, (rows, classes))
    stages = [
        declare_buffer("G0", of_class),
        f"G0[n, t] = sum[j < {classes}](Q[n, t, j] * P[n, j])",
        declare_buffer("E0", row),
        f"E0[n] = sum[j < {classes}](P[n, j] * G0[n, j])",
        declare_buffer("M", row),
        f"M[n] = max[j < {classes}](abs(G0[n, j] - E0[n]))",
        declare_buffer("N", row),
        f"N[n] = 0.0 if M[n] < {_NEAR / classes!r} else 1.0",
        declare_buffer("O", ValueType(dtype, ())),
        f"O[] = max[r < {rows}](N[r])",
        "Z[] = O[] > 0.0",
        declare_buffer("S0", of_class),
        "S0[n, j] = P[n, j]",
    ]
    for t in range(classes):
        error, gradient, step = f"E{t}[n]", f"G{t}[n, {t}]", f"D{t}[n]"
        stages += [declare_buffer(f"D{t}", row), f"{step} = ({error} - {gradient}) / Q[n, {t}, {t}]"]
        if t + 1 < classes:
            grown = f"{error} + {step} * ({step} * Q[n, {t}, {t}] + 2.0 * {gradient})"
            stages += [
                declare_buffer(f"E{t + 1}", row),
                f"E{t + 1}[n] = ({grown}) / ((1.0 + {step}) * (1.0 + {step}))",
                declare_buffer(f"G{t + 1}", of_class),
                f"G{t + 1}[n, j] = (G{t}[n, j] + {step} * Q[n, {t}, j]) / (1.0 + {step})",
            ]
        stages += [
            declare_buffer(f"S{t + 1}", of_class),
            f"S{t + 1}[n, j] = (S{t}[n, j] + ({step} if j == {t} else 0.0)) / (1.0 + {step})",
        ]
    return [*stages, f"Y[n, j] = S{classes}[n, j] if N[n] > 0.0 else P[n, j]"]
