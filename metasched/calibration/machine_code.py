"""Loops in LLVM text, compiled by the code generator that kernels use, to measure what a machine can do."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from metasched.compiler.cpu.codegen import LoadedCode, compile_text
from metasched.target import Target

_LOOP = """\
define double @loop({parameters}) {{
entry:
{entry}
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
{body}
  %next = add i64 %i, {step}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %body, label %done, !llvm.loop !0
done:
{done}
  ret double {result}
}}
{declarations}
!0 = distinct !{{!0, !1}}
!1 = !{{!"llvm.loop.unroll.disable"}}
!2 = !{{i32 1}}
"""


def counted_loop(
    parameters: Sequence[str],
    body: Sequence[str],
    *,
    entry: Sequence[str] = (),
    done: Sequence[str] = (),
    step: int = 1,
    result: str = "0.0",
    declarations: Sequence[str] = (),
) -> str:
    """A function `loop(parameters, i64 n)` that runs `body` for `%i` of 0, `step`, ... below `%n`, and is not unrolled.

    `entry` comes before it, `done` after it; the function returns `result`, a double. `!2` is what marks a store as
    non-temporal.
    """
    return _LOOP.format(
        parameters=", ".join([*parameters, "i64 %n"]),
        entry="\n".join(entry),
        body="\n".join(body),
        step=step,
        done="\n".join(done),
        result=result,
        declarations="\n".join(declarations),
    )


def load_loop(text: str, target: Target, arguments: tuple[type, ...]) -> Callable[..., float]:
    """The function `loop` of a module, ready to be called with values of these types of `ctypes`."""
    code = LoadedCode(compile_text(text, target))
    function = ctypes.CFUNCTYPE(ctypes.c_double, *arguments)(code.address("loop"))

    def call(*values: object, _keep: LoadedCode = code) -> float:
        return float(function(*values))

    return call
