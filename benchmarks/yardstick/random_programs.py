"""Small random programs of several stages, as text: a supplement to the operators, so that a model sees other nests."""

from __future__ import annotations

from random import Random

# What a stage does with the element of the stage before it, and another one.
_POINTWISE = ("max({x}, 0)", "{x} * {x} + 0.5", "exp(min({x}, 4))", "tanh({x})", "{x} / (abs({x}) + 1)", "{x} * {y}")
_ROWS = (17, 48, 64, 100, 128, 196, 256, 512, 1000, 3000)
_COLUMNS = (30, 64, 96, 128, 200, 256, 512, 768, 1024)
_DEPTHS = (9, 32, 64, 100, 256, 512)
_MOST_PRODUCTS = 1 << 27


def random_program(seed: int) -> str:
    """A program of two to four stages over a matrix: products, sums along either axis, stencils and pointwise ones."""
    rng = Random(seed)
    rows, columns = rng.choice(_ROWS), rng.choice(_COLUMNS)
    depth = rng.choice([d for d in _DEPTHS if rows * columns * d <= _MOST_PRODUCTS])
    kinds = [rng.choice(("product", "stencil", "read")), *(_kind(rng) for _ in range(rng.randint(1, 2)))]
    if rng.random() < 0.5:
        kinds.append("sum")
    inputs: list[str] = []
    lines: list[str] = []
    shape, last = [rows, columns], ""
    for n, kind in enumerate(kinds):
        final = n == len(kinds) - 1
        name = "Y" if final else f"T{n}"
        lines += _stage(kind, name, last, shape, depth, inputs, rng, n)
        if kind == "sum":
            shape = shape[:1]
        last = name
    sizes = ", ".join(str(size) for size in shape)
    header = f"program random_{seed}({', '.join(inputs)}) -> Y: f32[{sizes}]:"
    return "\n".join([header, *(f"    {line}" for line in lines)]) + "\n"


def _kind(rng: Random) -> str:
    return rng.choice(("pointwise", "pointwise", "bias", "normalised"))


def _stage(
    kind: str, name: str, last: str, shape: list[int], depth: int, inputs: list[str], rng: Random, n: int
) -> list[str]:
    """The lines of a stage `name`, computed from `last`; the tensors that it reads are added to `inputs`."""
    rows, columns = shape[0], shape[-1]
    i, j = f"i < {rows}", f"j < {columns}"
    if kind == "product":
        inputs += [f"A: f32[{rows}, {depth}]", f"B: f32[{depth}, {columns}]"]
        return [f"s{n}: {name}[{i}, {j}] = sum[k < {depth}](A[i, k] * B[k, j])"]
    if kind == "stencil":
        taps = rng.choice((3, 5))
        inputs.append(f"A: f32[{rows + taps - 1}, {columns + taps - 1}]")
        return [f"s{n}: {name}[{i}, {j}] = sum[r < {taps}, s < {taps}](A[i + r, j + s])"]
    if kind == "read":
        inputs += [f"A: f32[{rows}, {columns}]", f"B: f32[{columns}, {rows}]"]
        return [f"s{n}: {name}[{i}, {j}] = A[i, j] + B[j, i]"]
    if kind == "bias":
        inputs.append(f"bias{n}: f32[{columns}]")
        return [f"s{n}: {name}[{i}, {j}] = {last}[i, j] + bias{n}[j]"]
    if kind == "normalised":
        return [
            f"m{n}: M{n}[{i}] = max[k < {columns}]({last}[i, k])",
            f"s{n}: {name}[{i}, {j}] = {last}[i, j] - M{n}[i]",
        ]
    if kind == "sum":
        return [f"s{n}: {name}[{i}] = sum[k < {columns}]({last}[i, k])"]
    inputs.append(f"P{n}: f32[{rows}, {columns}]")
    value = rng.choice(_POINTWISE).format(x=f"{last}[i, j]", y=f"P{n}[i, j]")
    if f"P{n}[" not in value:
        inputs.pop()
    return [f"s{n}: {name}[{i}, {j}] = {value}"]
