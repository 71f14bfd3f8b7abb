"""Parallel loops without Numba: a thread for each chunk, started for the loop and joined after it.

What a kernel's emitted code calls is the same as with Numba's layers; only the table it finds it in is another.
"""

from __future__ import annotations

from metasched.compiler.cpu.emit.runtime import ALLOWED_FUNCTION, LAUNCH_FUNCTION

# A chunk's job is its task, its context and its number. A thread that cannot be started runs on the caller.
LAUNCHER = f"""\
%job = type {{ ptr, ptr, i64 }}

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)

define internal ptr @run(ptr %job) nounwind {{
  %args = alloca ptr
  %dimensions = alloca [2 x i64]
  %steps = alloca [2 x i64]
  %task = load ptr, ptr %job
  %context.at = getelementptr %job, ptr %job, i64 0, i32 1
  %context = load ptr, ptr %context.at
  %chunk.at = getelementptr %job, ptr %job, i64 0, i32 2
  %chunk = load i64, ptr %chunk.at
  %start = inttoptr i64 %chunk to ptr
  store ptr %start, ptr %args
  store i64 1, ptr %dimensions
  store i64 1, ptr %steps
  call void %task(ptr %args, ptr %dimensions, ptr %steps, ptr %context)
  ret ptr null
}}

define void @{LAUNCH_FUNCTION}(ptr %task, ptr %context, i64 %chunks) nounwind {{
entry:
  %jobs = alloca %job, i64 %chunks
  %threads = alloca i64, i64 %chunks
  %started = alloca i32, i64 %chunks
  br label %fill
fill:
  %n = phi i64 [ 0, %entry ], [ %n.next, %filled ]
  %job = getelementptr %job, ptr %jobs, i64 %n
  store ptr %task, ptr %job
  %context.at = getelementptr %job, ptr %job, i64 0, i32 1
  store ptr %context, ptr %context.at
  %chunk.at = getelementptr %job, ptr %job, i64 0, i32 2
  store i64 %n, ptr %chunk.at
  %status.at = getelementptr i32, ptr %started, i64 %n
  %first = icmp eq i64 %n, 0
  br i1 %first, label %filled, label %start
start:
  %thread.at = getelementptr i64, ptr %threads, i64 %n
  %status = call i32 @pthread_create(ptr %thread.at, ptr null, ptr @run, ptr %job)
  store i32 %status, ptr %status.at
  br label %filled
filled:
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, %chunks
  br i1 %more, label %fill, label %own
own:
  %own.result = call ptr @run(ptr %jobs)
  br label %test
test:
  %m = phi i64 [ 1, %own ], [ %m.next, %joined ]
  %waiting = icmp ult i64 %m, %chunks
  br i1 %waiting, label %wait, label %done
wait:
  %m.status.at = getelementptr i32, ptr %started, i64 %m
  %m.status = load i32, ptr %m.status.at
  %runs = icmp eq i32 %m.status, 0
  br i1 %runs, label %join, label %instead
join:
  %m.thread.at = getelementptr i64, ptr %threads, i64 %m
  %m.thread = load i64, ptr %m.thread.at
  %joined.status = call i32 @pthread_join(i64 %m.thread, ptr null)
  br label %joined
instead:
  %m.job = getelementptr %job, ptr %jobs, i64 %m
  %m.result = call ptr @run(ptr %m.job)
  br label %joined
joined:
  %m.next = add i64 %m, 1
  br label %test
done:
  ret void
}}

define i64 @{ALLOWED_FUNCTION}(i64 %most) nounwind {{
  ret i64 %most
}}
"""
