"""Kernels called one after another from compiled code, from a table: a network's steps.

A *step* is a kernel and where its arguments are: each an offset in bytes from a *root*, the address of a piece of
memory. So one table serves every call, whatever memory it has: a call brings its own array of roots. Between kernels
there may be what moves data or roots (see `step_actions`), and loops: an entry before the entries that it runs.

    i32 metasched_step(ptr roots, ptr arguments)
        is in each kernel's module: it calls the kernel with its arguments, and returns its status. `arguments` is a
        pair of 64-bit integers for each, the number of a root and an offset; the workspace's is the last.
    i64 metasched_steps(ptr steps, i64 count, ptr roots, i64 most)
        runs `count` entries, each a pair of pointers: to a function like `metasched_step` and to its arguments. It
        returns 0, or where a status is not 0, the entry's number times 256 plus its status; those after it do not run.
        No loop in it takes more steps than `most`.
    i64 metasched_call(ptr call)
        is what Python calls: one pointer takes little time. It is to 64-bit integers, which are the first four
        arguments of `metasched_steps`, where the roots are that are addresses of arrays, one behind another, how many
        these are, and for each where its address is, which is copied to its root.
    i64 metasched_timed_steps(ptr steps, i64 count, ptr roots, i64 most, ptr times, ptr runs)
        does the same, and adds the nanoseconds that each entry took to `times`, and how often it ran to `runs`.

A loop is an entry whose function is null. Its arguments are five places and two numbers: the most steps that data say;
a byte, whether there is a first step; a byte that each step makes, whether there is another; where the number of the
step is written before it, and how many there were after the last; how many entries behind this one a step runs, and
the most steps whatever data say.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from metasched.compiler.cpu.emit.python_entry import EntryArgument
from metasched.compiler.cpu.emit.step_actions import ACTIONS_TEXT, SKIP, number_text, place_text
from metasched.compiler.cpu.emit.types import memory_text

STEP = "metasched_step"
STEPS = "metasched_steps"
CALL = "metasched_call"
TIMED_STEPS = "metasched_timed_steps"
# A result of `metasched_steps` is an entry's number times this, plus its status.
STATUSES = 256

_CLOCK_MONOTONIC = 6 if sys.platform == "darwin" else 1
_LOOP_PLACES = 5


def step_entry(arguments: Sequence[EntryArgument], entry: str, *, workspace: bool) -> str:
    """LLVM text of a kernel's `metasched_step`; `workspace` says whether the kernel takes one."""
    lines: list[str] = []
    values: list[str] = []
    for n, argument in enumerate(arguments):
        lines += place_text(n)
        if argument.shape is None:
            type_ = memory_text(argument.dtype)
            lines.append(f"  %value{n} = load {type_}, ptr %at{n}")
            values.append(f"{type_} %value{n}")
        else:
            values.append(f"ptr %at{n}")
    if workspace:
        lines += place_text(len(arguments))
    values.append(f"ptr %at{len(arguments)}" if workspace else "ptr null")
    body = "\n".join(lines)
    return f"""
define i32 @{STEP}(ptr %roots, ptr %arguments) nounwind {{
{body}
  %status = call i32 @{entry}({", ".join(values)})
  ret i32 %status
}}
"""


# The function and the arguments of entry `%n`.
_LOAD_ENTRY = """\
  %step.at = getelementptr { ptr, ptr }, ptr %steps, i64 %n
  %function = load ptr, ptr %step.at
  %arguments.at = getelementptr { ptr, ptr }, ptr %steps, i64 %n, i32 1
  %arguments = load ptr, ptr %arguments.at
"""
# The result where entry `%n` ends with `%status`.
_RETURN_FAILURE = f"""\
  %wide = zext i32 %status to i64
  %shifted = mul i64 %n, {STATUSES}
  %result = add i64 %shifted, %wide
  ret i64 %result
"""


def _runner_text(name: str, parameters: str, values: str, after_each: str) -> str:
    """The functions that run entries from one number to another, and a loop's entries again and again."""
    return f"{_entries_text(name, parameters, values, after_each)}\n{_entry_loop_text(name, parameters, values)}"


def _entries_text(name: str, parameters: str, values: str, after_each: str) -> str:
    return f"""\
define internal i64 @{name}(ptr %steps, i64 %first, i64 %end, ptr %roots, i64 %most{parameters}) nounwind {{
entry:
  br label %test
test:
  %n = phi i64 [ %first, %entry ], [ %n.next, %ran ], [ %n.skipped, %skip ], [ %n.behind, %looped ]
  %more = icmp slt i64 %n, %end
  br i1 %more, label %step, label %done
step:
{_LOAD_ENTRY}  %is.loop = icmp eq ptr %function, null
  br i1 %is.loop, label %loop, label %call
call:
  %status = call i32 %function(ptr %roots, ptr %arguments)
{after_each}  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %stop, label %ran
ran:
  %n.next = add i64 %n, 1
  br label %test
stop:
  %is.skip = icmp eq i32 %status, {SKIP}
  br i1 %is.skip, label %skip, label %fail
skip:
  %n.skipped = add i64 %n, 2
  br label %test
fail:
{_RETURN_FAILURE}loop:
  %begin = add i64 %n, 1
  %inside = call i64 @{name}_loop(ptr %steps, i64 %begin, ptr %arguments, ptr %roots, i64 %most{values})
  %loop.failed = icmp ne i64 %inside, 0
  br i1 %loop.failed, label %loop.fail, label %looped
looped:
  %count.at = getelementptr i64, ptr %arguments, i64 {2 * _LOOP_PLACES}
  %count = load i64, ptr %count.at
  %n.behind = add i64 %begin, %count
  br label %test
loop.fail:
  ret i64 %inside
done:
  ret i64 0
}}
"""


def _entry_loop_text(name: str, parameters: str, values: str) -> str:
    lines = [line for n in range(_LOOP_PLACES) for line in place_text(n)]
    lines += [line for n in range(2) for line in number_text(n, _LOOP_PLACES)]
    begin = "\n".join(lines)
    return f"""\
define internal i64 @{name}_loop(ptr %steps, i64 %first, ptr %arguments, ptr %roots, i64 %most{parameters}) nounwind {{
entry:
{begin}
  %end = add i64 %first, %number0
  %limit = load i64, ptr %at0, align 1
  %is.less = icmp slt i64 %limit, %number1
  %less = select i1 %is.less, i64 %limit, i64 %number1
  %is.least = icmp slt i64 %less, %most
  %least = select i1 %is.least, i64 %less, i64 %most
  %begins = load i8, ptr %at1
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %i.next, %ran ]
  %flag = phi i8 [ %begins, %entry ], [ %again, %ran ]
  %goes.on = icmp ne i8 %flag, 0
  %is.inside = icmp slt i64 %i, %least
  %more = and i1 %goes.on, %is.inside
  br i1 %more, label %step, label %done
step:
  store i64 %i, ptr %at3
  %result = call i64 @{name}(ptr %steps, i64 %first, i64 %end, ptr %roots, i64 %most{values})
  %failed = icmp ne i64 %result, 0
  br i1 %failed, label %fail, label %ran
ran:
  %again = load i8, ptr %at2
  %i.next = add i64 %i, 1
  br label %test
fail:
  ret i64 %result
done:
  store i64 %i, ptr %at4, align 1
  ret i64 0
}}
"""


_RECORD_TIME = """\
  %now = call i64 @nanoseconds()
  %then = load i64, ptr %clock
  store i64 %now, ptr %clock
  %spent = sub i64 %now, %then
  %time.at = getelementptr i64, ptr %times, i64 %n
  %time = load i64, ptr %time.at
  %time.sum = add i64 %time, %spent
  store i64 %time.sum, ptr %time.at
  %run.at = getelementptr i64, ptr %runs, i64 %n
  %run = load i64, ptr %run.at
  %run.sum = add i64 %run, 1
  store i64 %run.sum, ptr %run.at
"""


_TIMED_PARAMETERS = ", ptr %times, ptr %runs, ptr %clock"

# What `metasched_call` is given, in order; behind it are the places of addresses.
CALL_FIELDS = ("steps", "count", "roots", "most", "first", "arrays")

_CALL_FIELDS_TEXT = "".join(
    f"""\
  %{name}.at = getelementptr i64, ptr %call, i64 {n}
  %{name} = load {"i64" if name in {"count", "most", "arrays"} else "ptr"}, ptr %{name}.at
"""
    for n, name in enumerate(CALL_FIELDS)
)
_CALL_TEXT = f"""
define i64 @{CALL}(ptr %call) nounwind {{
entry:
{_CALL_FIELDS_TEXT}  %places = getelementptr i64, ptr %call, i64 {len(CALL_FIELDS)}
  br label %test
test:
  %n = phi i64 [ 0, %entry ], [ %n.next, %copy ]
  %more = icmp slt i64 %n, %arrays
  br i1 %more, label %copy, label %run
copy:
  %place.at = getelementptr ptr, ptr %places, i64 %n
  %place = load ptr, ptr %place.at
  %address = load i64, ptr %place
  %root.at = getelementptr i64, ptr %first, i64 %n
  store i64 %address, ptr %root.at
  %n.next = add i64 %n, 1
  br label %test
run:
  %result = call i64 @{STEPS}(ptr %steps, i64 %count, ptr %roots, i64 %most)
  ret i64 %result
}}
"""

# What runs tables without loops. It is compiled by every process that runs a network, so it has nothing else.
STEPS_MODULE = f"""\
define i64 @{STEPS}(ptr %steps, i64 %count, ptr %roots, i64 %most) nounwind {{
entry:
  br label %test
test:
  %n = phi i64 [ 0, %entry ], [ %n.next, %ran ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %step, label %done
step:
{_LOAD_ENTRY}  %status = call i32 %function(ptr %roots, ptr %arguments)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %stop, label %ran
ran:
  %n.next = add i64 %n, 1
  br label %test
stop:
{_RETURN_FAILURE}done:
  ret i64 0
}}
{_CALL_TEXT}"""

# The same for any table, and what is done between its kernels.
LOOPS_MODULE = (
    _runner_text("run_steps", "", "", "")
    + ACTIONS_TEXT
    + f"""
define i64 @{STEPS}(ptr %steps, i64 %count, ptr %roots, i64 %most) nounwind {{
  %result = call i64 @run_steps(ptr %steps, i64 0, i64 %count, ptr %roots, i64 %most)
  ret i64 %result
}}
{_CALL_TEXT}"""
)

TIMED_STEPS_MODULE = (
    _runner_text("run_timed_steps", _TIMED_PARAMETERS, _TIMED_PARAMETERS, _RECORD_TIME)
    + f"""
define i64 @{TIMED_STEPS}(ptr %steps, i64 %count, ptr %roots, i64 %most, ptr %times, ptr %runs) nounwind {{
  %clock = alloca i64
  %now = call i64 @nanoseconds()
  store i64 %now, ptr %clock
  %result = call i64 @run_timed_steps(
    ptr %steps, i64 0, i64 %count, ptr %roots, i64 %most, ptr %times, ptr %runs, ptr %clock)
  ret i64 %result
}}

declare i32 @clock_gettime(i32, ptr)

define internal i64 @nanoseconds() nounwind {{
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 {_CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}}
"""
)
