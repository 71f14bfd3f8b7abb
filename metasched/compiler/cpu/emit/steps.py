"""Kernels called one after another from compiled code, from a table: a network's steps.

A *step* is a kernel and where its arguments are: each an offset in bytes from a *root*, the address of a piece of
memory. So one table serves every call, whatever memory it has: a call brings its own array of roots.

    i32 metasched_step(ptr roots, ptr arguments)
        is in each kernel's module: it calls the kernel with its arguments, and returns its status. `arguments` is a
        pair of 64-bit integers for each, the number of a root and an offset; the workspace's is the last.
    i64 metasched_steps(ptr steps, i64 count, ptr roots)
        calls `count` steps, each a pair of pointers: to a `metasched_step` and to its arguments. It returns 0, or
        where a step's status is not 0, the step's number times 256 plus its status; the steps after it do not run.
    i64 metasched_timed_steps(ptr steps, i64 count, ptr roots, ptr times)
        does the same, and stores the monotonic clock, in nanoseconds, before the first step and after each.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from metasched.compiler.cpu.emit.python_entry import EntryArgument
from metasched.compiler.cpu.emit.types import memory_text

STEP = "metasched_step"
STEPS = "metasched_steps"
TIMED_STEPS = "metasched_timed_steps"
# A result of `metasched_steps` is a step's number times this, plus its status.
STATUSES = 256

_CLOCK_MONOTONIC = 6 if sys.platform == "darwin" else 1


def step_entry(arguments: Sequence[EntryArgument], entry: str, *, workspace: bool) -> str:
    """LLVM text of a kernel's `metasched_step`; `workspace` says whether the kernel takes one."""
    lines: list[str] = []
    values: list[str] = []
    for n, argument in enumerate(arguments):
        lines += _place(n)
        if argument.shape is None:
            type_ = memory_text(argument.dtype)
            lines.append(f"  %value{n} = load {type_}, ptr %at{n}")
            values.append(f"{type_} %value{n}")
        else:
            values.append(f"ptr %at{n}")
    if workspace:
        lines += _place(len(arguments))
    values.append(f"ptr %at{len(arguments)}" if workspace else "ptr null")
    body = "\n".join(lines)
    return f"""
define i32 @{STEP}(ptr %roots, ptr %arguments) nounwind {{
{body}
  %status = call i32 @{entry}({", ".join(values)})
  ret i32 %status
}}
"""


def _place(n: int) -> list[str]:
    """The address of an argument."""
    return [
        f"  %root.at{n} = getelementptr i64, ptr %arguments, i64 {2 * n}",
        f"  %root{n} = load i64, ptr %root.at{n}",
        f"  %base.at{n} = getelementptr ptr, ptr %roots, i64 %root{n}",
        f"  %base{n} = load ptr, ptr %base.at{n}",
        f"  %offset.at{n} = getelementptr i64, ptr %arguments, i64 {2 * n + 1}",
        f"  %offset{n} = load i64, ptr %offset.at{n}",
        f"  %at{n} = getelementptr i8, ptr %base{n}, i64 %offset{n}",
    ]


def _loop(name: str, parameters: str, at_start: str, after_each: str) -> str:
    return f"""\
define i64 @{name}({parameters}) nounwind {{
entry:
{at_start}  br label %test
test:
  %n = phi i64 [ 0, %entry ], [ %n.next, %ran ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %step, label %done
step:
  %step.at = getelementptr {{ ptr, ptr }}, ptr %steps, i64 %n
  %function = load ptr, ptr %step.at
  %arguments.at = getelementptr {{ ptr, ptr }}, ptr %steps, i64 %n, i32 1
  %arguments = load ptr, ptr %arguments.at
  %status = call i32 %function(ptr %roots, ptr %arguments)
  %n.next = add i64 %n, 1
{after_each}  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %stop, label %ran
ran:
  br label %test
stop:
  %wide = zext i32 %status to i64
  %shifted = mul i64 %n, {STATUSES}
  %result = add i64 %shifted, %wide
  ret i64 %result
done:
  ret i64 0
}}
"""


STEPS_MODULE = (
    _loop(STEPS, "ptr %steps, i64 %count, ptr %roots", "", "")
    + _loop(
        TIMED_STEPS,
        "ptr %steps, i64 %count, ptr %roots, ptr %times",
        "  call void @store_time(ptr %times)\n",
        "  %time.at = getelementptr i64, ptr %times, i64 %n.next\n  call void @store_time(ptr %time.at)\n",
    )
    + f"""
declare i32 @clock_gettime(i32, ptr)

define internal void @store_time(ptr %place) nounwind {{
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 {_CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  store i64 %sum, ptr %place
  ret void
}}
"""
)
