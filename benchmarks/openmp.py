"""Numba's OpenMP threads instead of this package's pool, to compare the two."""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

LAUNCH = "openmp_launch"
_LAYER = "numba.np.ufunc.omppool"

# What a kernel calls, by Numba's `parallel_for`: a region of several phases is several of OpenMP's, one after another.
TEXT = f"""
@parallel_for = global ptr null

define internal void @chunks(ptr %args, ptr %dimensions, ptr %steps, ptr %region) {{
entry:
  %body = load ptr, ptr %region
  %context.at = getelementptr ptr, ptr %region, i64 1
  %context = load ptr, ptr %context.at
  %phase.at = getelementptr i64, ptr %region, i64 2
  %phase = load i64, ptr %phase.at
  %start.at = load ptr, ptr %args
  %start = ptrtoint ptr %start.at to i64
  %count = load i64, ptr %dimensions
  %stop = add i64 %start, %count
  br label %test
test:
  %chunk = phi i64 [ %start, %entry ], [ %next, %run ]
  %more = icmp ult i64 %chunk, %stop
  br i1 %more, label %run, label %done
run:
  call void %body(ptr %context, i64 %phase, i64 %chunk)
  %next = add i64 %chunk, 1
  br label %test
done:
  ret void
}}

define void @{LAUNCH}(ptr %body, ptr %context, i64 %phases, i64 %chunks) {{
entry:
  %args = alloca ptr
  %dimensions = alloca [2 x i64]
  %steps = alloca [2 x i64]
  %region = alloca [3 x i64]
  %dimension.1 = getelementptr i64, ptr %dimensions, i64 1
  store i64 1, ptr %dimension.1
  store i64 1, ptr %steps
  store ptr %body, ptr %region
  %context.at = getelementptr ptr, ptr %region, i64 1
  store ptr %context, ptr %context.at
  %phase.at = getelementptr i64, ptr %region, i64 2
  %for = load ptr, ptr @parallel_for
  br label %test
test:
  %phase = phi i64 [ 0, %entry ], [ %next, %run ]
  %more = icmp slt i64 %phase, %phases
  br i1 %more, label %run, label %done
run:
  store ptr null, ptr %args
  store i64 %chunks, ptr %dimensions
  store i64 %phase, ptr %phase.at
  call void %for(ptr @chunks, ptr %args, ptr %dimensions, ptr %steps, ptr %region, i64 1, i64 1, i64 %chunks)
  %next = add i64 %phase, 1
  br label %test
done:
  ret void
}}
"""


def openmp_launch() -> tuple[int, Any]:
    """The address of a function that launches regions on OpenMP's threads, and what keeps its code in memory."""
    import numba

    from metasched.compiler.cpu.codegen import LoadedCode, compile_text
    from metasched.target import Target

    numba.config.THREADING_LAYER = "omp"
    numba.get_num_threads()  # starts them
    code = LoadedCode(compile_text(TEXT, Target.detect(threads=1)))
    ctypes.c_int64.from_address(code.address("parallel_for")).value = import_module(_LAYER).parallel_for
    return code.address(LAUNCH), code


def use_openmp() -> None:
    """Have all kernels of this process run on OpenMP's threads."""
    from metasched.compiler.cpu.emit import runtime
    from metasched.runtime.threads import state

    launch, code = openmp_launch()
    state.load()
    table = (ctypes.c_int64 * runtime.SLOTS).from_address(state.address)
    table[runtime.LAUNCH] = launch
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
