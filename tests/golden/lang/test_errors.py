"""What a person sees when a text is wrong. To accept a change: pytest --update-golden, then read the diff."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from metasched.errors import LanguageError
from metasched.lang import parse_program, parse_trace
from metasched.space.text.rules import parse_module

HEAD = "program p[N=8, M=4](A: f32[N, M], B: i32[N]) -> C: f32[N, M]:\n"

SYNTAX = [
    "",
    "progam p(A: f32[4]) -> B: f32[4]:",
    "C[i, j] = sum[k](A[i, k] * B[k, j])",
    "program p(A: f32[4]",
    "program p(A = f32[4]) -> B: f32[4]:",
    "program p(A) -> B: f32[4]:",
    "program p(A: [4]) -> B: f32[4]:",
    "program p(A: f32[4]):\n    B[i] = A[i]",
    "program p(A: f32[4]) -> B: f32[4]\n    B[i] = A[i]",
    "program p(A: f32[4]) -> B: f32[4]: B[i] = A[i]",
    "program p[N](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]",
    HEAD,
    HEAD + "C[i, j] = A[i, j]",
    HEAD + "    C[i, j] = A[i, j] +",
    HEAD + "    C[i, j] = (A[i, j] + 1\n    D[i] = B[i]",
    HEAD + "    C[i, j] = A[i, j]]",
    HEAD + "    C[i, j] = A(i, j]",
    HEAD + "\tC[i, j] = A[i, j]",
    HEAD + "    T: f32[4]\n  C[i, j] = A[i, j]",
    HEAD + "    C[i, j] := A[i, j]",
    HEAD + "    C[i, j] = A[i][j]",
    HEAD + "    C = A[i, j]",
    HEAD + "    C[i, j] = sum(k)(A[i, k])",
    HEAD + "    C[i, j] = A[i, j] ** 2",
    HEAD + "    C[i, j] = A[i, j] ^ 2",
    HEAD + "    C[i, j] = A[i, j] if i > 0 && j > 0 else 0",
    HEAD + "    C[i, j] = A[i, j] if 0 < i < 4 else 0",
    HEAD + "    C[i, j] = A[i, j] if i > 0",
    HEAD + "    C[i, j] = A[i, j] if i > 0 else if j > 0 else 1",
    HEAD + "    C[i, j] = A[i, j] if i = 0 else 1",
    HEAD + "    C[i, j] = A[:, j]",
    HEAD + "    for i in range(8):\n        C[i, j] = A[i, j]",
    HEAD + "    C[i, j] = A[i, j];",
    HEAD + "    C[i, j] = 2 A[i, j]",
]

MEANING = [
    HEAD + "    C[i, j] = A[i, j] + B[i] + Q[i] + alpha + foo(3) + sun[k](A[i, k])",
    HEAD + "    C[i, j] = A[i, j + 1] + f32(B[i - 1])",
    HEAD + "    C[i, j] = A[j, i] + f32(B[i, j])",
    HEAD + "    l: C[i, j] = max(sum[k](A[i, k]), 0) + f32(B[i])",
    HEAD + "    C[i, j] = sum[k](A[i, k] * A[k, j] * f32(B[i + j]))",
    HEAD + "    C[i, j] = A[i, j]\n    T[i, j] = 3\n    E[i, j] = A[i, j] if f32(B[i]) > 1e3 else 0.5",
    HEAD + "    let X = N // (M - 4)\n    let X = 1\n    T: f32[M - 4]\n    A[i, j] = T[i]\n    T[i] = f32(B[i] / 2)",
    HEAD + "    C[i, j] = A[i, j] if B[i] else not A[i, j]",
    HEAD + "    C[i, j < 3] = A[i, j + 2] if j + 2 < M and i >= 0 else A[i, -1] + f32(B[i])",
    HEAD + "    C[i, N] = A[i, 0.5] * f32(B[i] + 2147483648)",
    "program p[N=8, M=8, Q=1](A: float32[N], b: f16, const c: f32) -> C: f32[N]:\n    C[i] = A[i]",
    "program p(A: f32[5]) -> C: f32[5]:\n    S[i] = A[i] + T[i]\n    T[i] = S[i]\n    C[i] = S[i + 1] * T[i]",
]  # fmt: skip

TRACES = [
    "trace of p:\n    f()",
    "trace 1 of p\n    f()",
    "trace 2 of p:\n    f()",
    'trace 1 of p:\n    dense = get_block("dense")\n    i, j, k = get_loops(dens)\n    split(i, [_, 4], q * 2)',
    "trace 1 of p:\n    a = split(4) := [_, 8]\n    b ~ sample_tile(a) = 8",
    "trace 1 of p:\n    a = get_block('dense')",
    'trace 1 of p:\n    a = get_block("den\\qse")\n    f(x=1, 2, x=3)',
    "trace 1 of p:\n    a = sch.split(4)",
    "trace 1 of p:\n    a = split(4",
]

STEPS = 'module m(b):\n    "What it does."\n    i, j = get_loops(b)\n'

MODULES = [
    "def tile(block):\n    unroll(block)",
    "module tile(block, innermost=64):",
    "module tile[innermost](block):\n    unroll(block)",
    "module tile(block)\n    unroll(block)",
    "module tile(block):\nunroll(block)",
    STEPS + "    sch.split(i, [None, 4])",
    STEPS + '    how ~ choose("a", "b")\n    if how = "a":\n        unroll(i)',
    STEPS + "    if reduces(b)\n        unroll(i)",
    STEPS + "    if reduces(b):\n        unroll(i)\n    else if trivial(b):\n        unroll(j)",
    STEPS + "    x, y ~ sample_tile(i, parts=2) = [_, 8]",
    STEPS + "    x, y := sample_tile(i, parts=2)",
    STEPS + "    unroll(get_loops(b)[1:])",
    STEPS + '    if "exp" in reads(b): unroll(i)',
    STEPS + "    n = 1\n    n += 1",
    STEPS + "    while True:\n        unroll(i)",
    STEPS + "    if reduces(b): skip",
    STEPS + "    loops = [fuse(l) for l in [i, j]]",
    STEPS + "    if not reduces(b): pass",
    STEPS + "    splitt(i, [None, 4])\n    if reducs(b): unrol(jj)\n    x, y = sample_tile(i, part=2)",
    STEPS + "    x, y ~ sample_tile(i, parts=2)\n    split(i, [x, y])\n    if x * 2 > 4: unroll(j)",
    STEPS + '    how ~ choose("rows", "tiles")\n    if how == "row": parallel(i)\n    else: a, b, c = fuse(i, j)',
    STEPS + "    for n in range(4): unroll(i)",
    STEPS + "    unused = j\n    return i\n    unroll(i)",
    "module m[size=i, way=2](b, c):\n    m(b, way=3)",
]


def shown(text: str, parse: Callable[[str], object]) -> str:
    with pytest.raises(LanguageError) as caught:
        parse(text)
    numbered = "\n".join(f"{n + 1:3} | {line}" for n, line in enumerate(text.split("\n")))
    return f"{numbered}\n\n{caught.value}\n"


RULE = "\n" + "-" * 100 + "\n"


@pytest.mark.parametrize(
    ("name", "texts", "parse"),
    [
        ("syntax_errors", SYNTAX, parse_program),
        ("program_errors", MEANING, parse_program),
        ("trace_errors", TRACES, parse_trace),
        ("module_errors", MODULES, parse_module),
    ],
)
def test_errors(
    golden: Callable[[str, str], None], name: str, texts: list[str], parse: Callable[[str], object]
) -> None:
    golden(f"lang/{name}", RULE.join(shown(text, parse) for text in texts))
