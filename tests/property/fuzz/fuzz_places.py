"""Random sums of what belongs to each place: histograms, cells, segments, products with one-hot rows."""

from __future__ import annotations

import numpy as np

from tests.property.fuzz.fuzz_programs import Source, pick

_TYPES = ("u8", "u8", "i8", "u16", "u32", "u64", "i32", "i32", "i64", "i64")
_FOUND = (
    "i64({0}) == v",
    "v == i64({0})",
    "u64({0}) == u64(v) - 2",
    "i32({0}) == i32(v) - 2",
    "i64({0}) + {1} == v - 1",
    "3 - v == i64({0})",
)
_MORE = "{0} and {2} != 1", "{2} > 0 and {0}", "{1} < 3 and {0}", "{0} and v != 2", "{1} + v < 9 and {0}"


def places(rng: np.random.Generator) -> Source:
    """A reduction over what equals an index of its result, perhaps with others, and perhaps a stage before it."""
    dtype, term_type = pick(rng, _TYPES), pick(rng, ["i32", "f32", "i64"])
    rows, columns, most = (int(rng.integers(1, high)) for high in (5, 9, 14))
    reducer = pick(rng, ["sum", "sum", "sum", "max"])
    if rng.random() < 0.2:
        return _one_hot(rng, dtype, term_type, (rows, columns, most))
    cells = bool(rng.random() < 0.4)  # an index of the result decides the place, too
    planes = bool(rng.random() < 0.4)  # and one does not
    axes = (["i"] if cells else []) + ["v"] + (["c"] if planes else [])
    over = ["j"] if cells else ["i", "j"]
    read, lines = "X[i, j]", []
    if rng.random() < 0.4:
        lines.append("before: Z[i, j] = X[i, j] // 2" if rng.random() < 0.5 else "before: Z[i, j] = X[i, j] % 5")
        read = "Z[i, j]"
    cond = str(pick(rng, _FOUND)).format(read, "i")
    if rng.random() < 0.4:
        cond = str(pick(rng, _MORE)).format(cond, "j", read)
    term = str(pick(rng, [f"{term_type}(1)", "A[i, j]", "A[i, j]"]))
    if planes:
        term = f"{term} * B[c]" if rng.random() < 0.5 else f"({term} if c == 0 else {term_type}(2))"
    left = ", ".join(f"{name} < {n}" for name, n in {"i": rows, "v": most, "c": 3}.items() if name in axes)
    lines.append(f"sums: N[{left}] = {reducer}[{', '.join(over)} if {cond}]({term})")
    result = "N"
    if rng.random() < 0.3:
        lines.append(f"after: Y[{', '.join(axes)}] = N[{', '.join(axes)}] * 2")
        result = "Y"
    text = " ".join(lines)
    given = [f"X: {dtype}[{rows}, {columns}]"]
    given += [f"A: {term_type}[{rows}, {columns}]"] if "A[" in text else []
    given += [f"B: {term_type}[3]"] if "B[" in text else []
    shape = ", ".join(str({"i": rows, "v": most, "c": 3}[name]) for name in axes)
    body = "".join(f"    {line}\n" for line in lines)
    return Source(f"program places({', '.join(given)}) -> {result}: {term_type}[{shape}]:\n{body}")


def _one_hot(rng: np.random.Generator, dtype: str, term_type: str, sizes: tuple[int, int, int]) -> Source:
    """A row of a table for each element, or two places at once, as sums over all of them."""
    rows, columns, most = sizes
    cond = str(pick(rng, _FOUND)).format("X[i, j]", "i")
    if rng.random() < 0.5:
        given = f"X: {dtype}[{rows}, {columns}], A: {term_type}[{most}, 3]"
        body = f"N[i, j, c] = sum[v < {most} if {cond}](A[v, c])"
        return Source(f"program places({given}) -> N: {term_type}[{rows}, {columns}, 3]:\n    {body}\n")
    given = f"X: {dtype}[{rows}, {columns}], W: i64[{rows}]"
    body = f"N[v < {most}, w < 4] = sum[i, j if {cond} and W[i] == w - 2]({term_type}(1))"
    return Source(f"program places({given}) -> N: {term_type}[{most}, 4]:\n    {body}\n")
