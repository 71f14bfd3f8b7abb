"""The pool of threads, as LLVM text: what every parallel loop of a process runs on, compiled once and never unloaded.

A *region* is a number of phases, each of so many chunks: `body(context, phase, chunk)` is called once for each pair,
and every chunk of a phase has ended before one of the next phase starts (a barrier). Which thread runs a chunk does not
change what it computes: workspaces belong to chunks.

- **Claiming.** Phases are numbered from the start of the process: the *epoch*. A chunk is claimed by raising its entry
  of `@claims` to the epoch. Thread t tries chunk t first, whose data its cache may have, and then the others; so a
  thread that the system does not run holds nobody up, and one that is late joins at the phase that is open. The caller
  is thread 0.
- **Barriers.** Whoever ends the last chunk of a phase opens the next one, or closes the region.
- **`@open`** holds the epoch and the number of chunks in one word, 0 when there is no region. A claim in an epoch that
  is over fails, since all its chunks are claimed; after a claim that succeeds, the region's other fields stay as they
  are until that chunk has ended. So nothing else about a region is read without a claim.
- **Waiting.** A thread without work looks for it for `_SPIN_NS` nanoseconds, and sleeps then. It says that it is about
  to sleep before it looks a last time, and whoever sees `@open` changed looks for sleepers afterwards: both are
  sequentially consistent, so none is missed (Dekker's argument). Those who are awake wake others, as a tree.
- **One region at a time.** A caller that finds the pool taken, by another thread or by itself further up, runs its
  chunks one after another on its own thread. Nobody waits for a region but its caller.
- **Places.** Who wakes a thread keeps it off its own processor (`thread_places`).
- **Threads** are started when a region first needs them. Where the system refuses, the others run the chunks. They
  block signals but those of faults, and take the caller's floating-point modes, so that results do not depend on who
  runs a chunk.
- **Forks.** A child has none of these threads: `metasched_pool_reset` is to be called there before anything else, and
  the child's first region starts them anew.
"""

from __future__ import annotations

import platform
import signal
import sys

from metasched.compiler.cpu.emit.thread_places import PLACE_BYTES, PLACE_FIELDS, THREAD_PLACES
from metasched.target import CACHE_LINE

# `void metasched_launch(body, context, phases, chunks)`: run a region of at most MAX_CHUNKS chunks; returns at its end.
LAUNCH_FUNCTION = "metasched_launch"
# `void metasched_pool_start(threads)`: have the threads ready that so many chunks want, the caller's included.
START_FUNCTION = "metasched_pool_start"
# `void metasched_pool_reset()`: forget all threads and whatever they were doing, in a child that was forked.
RESET_FUNCTION = "metasched_pool_reset"

_CHUNK_BITS = 10
MAX_CHUNKS = (1 << _CHUNK_BITS) - 1

_IS_X86 = platform.machine().lower() in {"x86_64", "amd64"}
# How long a thread looks for work before it sleeps, and how often it looks before it looks at the clock. To wake one
# takes a caller some 25 microseconds where processors are virtual. Steps of decoders, with 80 microseconds from one
# parallel loop to the next (the Python of a call, kernels of one thread), took 1.25 times as long when it was 40.
_SPIN_NS = 200_000
_LOOKS_PER_CLOCK_READ = 32
# How many sleeping threads each thread wakes.
_FAN_OUT = 4
_CLOCK_MONOTONIC = 6 if sys.platform == "darwin" else 1
_PAUSE = "call void @llvm.x86.sse2.pause()" if _IS_X86 else ""
_GET_MODES = "call void @llvm.x86.sse.stmxcsr(ptr @modes)" if _IS_X86 else ""
_SET_MODES = "call void @llvm.x86.sse.ldmxcsr(ptr @modes)" if _IS_X86 else ""
_X86_DECLARATIONS = """\
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""
_FAULT_SIGNALS = (
    signal.SIGSEGV,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGABRT,
    getattr(signal, "SIGBUS", signal.SIGSEGV),
)
_SIG_SETMASK = 3 if sys.platform == "darwin" else 2
_KEEP_FAULTS = "\n".join(f"  call i32 @sigdelset(ptr %signals, i32 {int(s)})" for s in dict.fromkeys(_FAULT_SIGNALS))

# Room for a mutex and a condition variable of any C library.
_SLEEPER = f"{{ i64, [56 x i8], [64 x i8], [64 x i8], {{ {PLACE_FIELDS} }} }}"
_SLEEPER_BYTES = 192 + -(-PLACE_BYTES // CACHE_LINE) * CACHE_LINE

_STATE = f"""\
; Whether it sleeps, its mutex, its condition variable, where it may run.
%sleeper = type {_SLEEPER}

; What a worker reads to begin is on one cache line, and every chunk's claim on one of its own.
%region = type {{ i64, i64, i64, i32, ptr, ptr }}
@region = internal global %region zeroinitializer, align {CACHE_LINE}
@open = internal alias i64, ptr @region
@first = internal alias i64, getelementptr (%region, ptr @region, i64 0, i32 1)
@last = internal alias i64, getelementptr (%region, ptr @region, i64 0, i32 2)
@modes = internal alias i32, getelementptr (%region, ptr @region, i64 0, i32 3)
@body = internal alias ptr, getelementptr (%region, ptr @region, i64 0, i32 4)
@context = internal alias ptr, getelementptr (%region, ptr @region, i64 0, i32 5)
@remaining = internal global i64 0, align {CACHE_LINE}
@taken = internal global i64 0, align {CACHE_LINE}
@epoch = internal global i64 0
@started = internal global i64 0
@caller = internal global %sleeper zeroinitializer, align {CACHE_LINE}
@claims = internal global [{MAX_CHUNKS + 1} x [{CACHE_LINE // 8} x i64]] zeroinitializer, align {CACHE_LINE}
@workers = internal global [{MAX_CHUNKS + 1} x ptr] zeroinitializer, align {CACHE_LINE}

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @clock_gettime(i32, ptr)
declare noalias ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
{_X86_DECLARATIONS if _IS_X86 else ""}
"""

_SLEEP_TEXT = f"""\
define internal void @sleeper_init(ptr %self) nounwind {{
  store atomic i64 0, ptr %self monotonic, align 8
  %mutex = getelementptr %sleeper, ptr %self, i64 0, i32 2
  %condition = getelementptr %sleeper, ptr %self, i64 0, i32 3
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %condition, ptr null)
  %place = getelementptr %sleeper, ptr %self, i64 0, i32 4
  store {{ i64, i64 }} zeroinitializer, ptr %place
  ret void
}}

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

; Wait until `@open` is no longer `word`, or for no reason: look until `deadline`, then sleep. A deadline of 0 is a spin
; from now. Returns the deadline that it kept to, which is 0 where it did not take long enough to look at the clock.
define internal i64 @wait(ptr %self, i64 %word, i64 %deadline) noinline nounwind {{
entry:
  br label %spin
spin:
  %until = phi i64 [ %deadline, %entry ], [ %until, %again ], [ %bound, %early ]
  %n = phi i64 [ 0, %entry ], [ %n.next, %again ], [ 0, %early ]
  %now = load atomic i64, ptr @open acquire, align 8
  %same = icmp eq i64 %now, %word
  br i1 %same, label %patient, label %changed
changed:
  ret i64 %until
patient:
  %n.next = add i64 %n, 1
  %often = icmp eq i64 %n.next, {_LOOKS_PER_CLOCK_READ}
  br i1 %often, label %clock, label %again
again:
  {_PAUSE}
  br label %spin
clock:
  %time = call i64 @nanoseconds()
  %unset = icmp eq i64 %until, 0
  %later = add i64 %time, {_SPIN_NS}
  %bound = select i1 %unset, i64 %later, i64 %until
  %in_time = icmp slt i64 %time, %bound
  br i1 %in_time, label %early, label %sleep
early:
  br label %spin
sleep:
  %mutex = getelementptr %sleeper, ptr %self, i64 0, i32 2
  call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 1, ptr %self seq_cst, align 8
  fence seq_cst
  %then = load atomic i64, ptr @open seq_cst, align 8
  %still = icmp eq i64 %then, %word
  br i1 %still, label %block, label %awake
block:
  %condition = getelementptr %sleeper, ptr %self, i64 0, i32 3
  call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  %place = getelementptr %sleeper, ptr %self, i64 0, i32 4
  call void @place_anywhere(ptr %place)
  br label %awake
awake:
  store atomic i64 0, ptr %self monotonic, align 8
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret i64 %bound
}}

define internal void @wake(ptr %other) nounwind {{
entry:
  %asleep = load atomic i64, ptr %other seq_cst, align 8
  %is_asleep = icmp ne i64 %asleep, 0
  br i1 %is_asleep, label %rouse, label %done
rouse:
  ; It holds the mutex from saying that it sleeps until it does.
  %mutex = getelementptr %sleeper, ptr %other, i64 0, i32 2
  %condition = getelementptr %sleeper, ptr %other, i64 0, i32 3
  call i32 @pthread_mutex_lock(ptr %mutex)
  %still = load atomic i64, ptr %other monotonic, align 8
  %sleeps = icmp ne i64 %still, 0
  br i1 %sleeps, label %move, label %signal
move:
  %place = getelementptr %sleeper, ptr %other, i64 0, i32 4
  call void @place_elsewhere(ptr %place)
  br label %signal
signal:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  call i32 @pthread_cond_signal(ptr %condition)
  br label %done
done:
  ret void
}}

; Thread t wakes the threads from {_FAN_OUT} t + 1 to {_FAN_OUT} t + {_FAN_OUT}, as far as there are chunks for them.
define internal void @wake_next(i64 %thread, i64 %chunks) nounwind {{
entry:
  fence seq_cst
  %started = load atomic i64, ptr @started acquire, align 8
  %most = add i64 %started, 1
  %fewer = icmp slt i64 %most, %chunks
  %threads = select i1 %fewer, i64 %most, i64 %chunks
  %scaled = mul i64 %thread, {_FAN_OUT}
  %from = add i64 %scaled, 1
  %past = add i64 %from, {_FAN_OUT}
  %short = icmp slt i64 %threads, %past
  %to = select i1 %short, i64 %threads, i64 %past
  br label %test
test:
  %n = phi i64 [ %from, %entry ], [ %n.next, %next ]
  %more = icmp slt i64 %n, %to
  br i1 %more, label %next, label %done
next:
  %index = sub i64 %n, 1
  %worker.at = getelementptr ptr, ptr @workers, i64 %index
  %worker = load ptr, ptr %worker.at
  call void @wake(ptr %worker)
  %n.next = add i64 %n, 1
  br label %test
done:
  ret void
}}
"""

_WORK_TEXT = f"""\
; Run what is left of the phase that `word` says, beginning with the chunk `own`.
define internal void @run_chunks(i64 %word, i64 %own) noinline nounwind {{
entry:
  %epoch = lshr i64 %word, {_CHUNK_BITS}
  %chunks = and i64 %word, {MAX_CHUNKS}
  br label %test
test:
  %n = phi i64 [ 0, %entry ], [ %n.next, %next ]
  %more = icmp ult i64 %n, %chunks
  br i1 %more, label %look, label %done
look:
  %after = add i64 %own, %n
  %wraps = icmp uge i64 %after, %chunks
  %before = sub i64 %after, %chunks
  %chunk = select i1 %wraps, i64 %before, i64 %after
  %claim = getelementptr [{CACHE_LINE // 8} x i64], ptr @claims, i64 %chunk
  %last = load atomic i64, ptr %claim monotonic, align 8
  %free = icmp ult i64 %last, %epoch
  br i1 %free, label %try, label %next
try:
  %exchange = cmpxchg ptr %claim, i64 %last, i64 %epoch acquire monotonic
  %claimed = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %claimed, label %run, label %next
run:
  %body = load ptr, ptr @body
  %context = load ptr, ptr @context
  %first = load i64, ptr @first
  %phase = sub i64 %epoch, %first
  {_SET_MODES}
  call void %body(ptr %context, i64 %phase, i64 %chunk)
  %before.this = atomicrmw sub ptr @remaining, i64 1 acq_rel
  %was_last = icmp eq i64 %before.this, 1
  br i1 %was_last, label %phase_ended, label %next
phase_ended:
  call void @end_phase(i64 %word)
  br label %done
next:
  %n.next = add i64 %n, 1
  br label %test
done:
  ret void
}}

; Called by the one thread that has ended the last chunk of a phase.
define internal void @end_phase(i64 %word) nounwind {{
entry:
  %epoch = lshr i64 %word, {_CHUNK_BITS}
  %last = load i64, ptr @last
  %more = icmp ult i64 %epoch, %last
  br i1 %more, label %following, label %close
following:
  %chunks = and i64 %word, {MAX_CHUNKS}
  %next = add i64 %word, {1 << _CHUNK_BITS}
  store atomic i64 %chunks, ptr @remaining monotonic, align 8
  store atomic i64 %next, ptr @open seq_cst, align 8
  call void @wake_next(i64 0, i64 %chunks)
  call void @wake(ptr @caller)
  ret void
close:
  store atomic i64 0, ptr @open seq_cst, align 8
  fence seq_cst
  call void @wake(ptr @caller)
  ret void
}}

; A worker's life. Its number is one less than that of the chunk that it prefers.
define internal ptr @work(ptr %number.text) nounwind {{
entry:
  %number = ptrtoint ptr %number.text to i64
  %self.at = getelementptr ptr, ptr @workers, i64 %number
  %self = load ptr, ptr %self.at
  %own = add i64 %number, 1
  %place = getelementptr %sleeper, ptr %self, i64 0, i32 4
  call void @place_init(ptr %place)
  br label %look
look:
  %deadline = phi i64 [ 0, %entry ], [ %kept, %idle ]
  %word = load atomic i64, ptr @open acquire, align 8
  %chunks = and i64 %word, {MAX_CHUNKS}
  %wanted = icmp ult i64 %own, %chunks
  br i1 %wanted, label %join, label %idle
join:
  call void @wake_next(i64 %own, i64 %chunks)
  call void @run_chunks(i64 %word, i64 %own)
  br label %idle
idle:
  %until = phi i64 [ %deadline, %look ], [ 0, %join ]
  %kept = call i64 @wait(ptr %self, i64 %word, i64 %until)
  br label %look
}}
"""

_START_TEXT = f"""\
; By who has taken the pool.
define internal void @start_workers(i64 %wanted) noinline nounwind {{
entry:
  %signals = alloca [16 x i64]
  %before = alloca [16 x i64]
  %thread = alloca i64
  %started = load i64, ptr @started
  %none = icmp eq i64 %started, 0
  br i1 %none, label %first, label %block
first:
  call void @sleeper_init(ptr @caller)
  br label %block
block:
  call i32 @sigfillset(ptr %signals)
{_KEEP_FAULTS}
  call i32 @pthread_sigmask(i32 {_SIG_SETMASK}, ptr %signals, ptr %before)
  br label %test
test:
  %n = phi i64 [ %started, %block ], [ %n.next, %running ]
  %more = icmp slt i64 %n, %wanted
  br i1 %more, label %make, label %done
make:
  %self = call ptr @aligned_alloc(i64 {CACHE_LINE}, i64 {_SLEEPER_BYTES})
  %missing = icmp eq ptr %self, null
  br i1 %missing, label %done, label %create
create:
  call void @sleeper_init(ptr %self)
  %self.at = getelementptr ptr, ptr @workers, i64 %n
  store ptr %self, ptr %self.at
  %number = inttoptr i64 %n to ptr
  %status = call i32 @pthread_create(ptr %thread, ptr null, ptr @work, ptr %number)
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %give_up, label %running
give_up:
  call void @free(ptr %self)
  br label %done
running:
  %id = load i64, ptr %thread
  call i32 @pthread_detach(i64 %id)
  %n.next = add i64 %n, 1
  store atomic i64 %n.next, ptr @started release, align 8
  br label %test
done:
  call i32 @pthread_sigmask(i32 {_SIG_SETMASK}, ptr %before, ptr null)
  ret void
}}

define internal i1 @take() nounwind {{
  %exchange = cmpxchg ptr @taken, i64 0, i64 1 acquire monotonic
  %is_ours = extractvalue {{ i64, i1 }} %exchange, 1
  ret i1 %is_ours
}}

define void @{START_FUNCTION}(i64 %threads) nounwind {{
entry:
  %ours = call i1 @take()
  br i1 %ours, label %start, label %done
start:
  %many = icmp sgt i64 %threads, {MAX_CHUNKS}
  %most = select i1 %many, i64 {MAX_CHUNKS}, i64 %threads
  %wanted = sub i64 %most, 1
  call void @start_workers(i64 %wanted)
  store atomic i64 0, ptr @taken release, align 8
  br label %done
done:
  ret void
}}

define void @{RESET_FUNCTION}() nounwind {{
  store i64 0, ptr @started
  store i64 0, ptr @remaining
  store i64 0, ptr @open
  store i64 0, ptr @taken
  ret void
}}
"""

_LAUNCH_TEXT = f"""\
define void @{LAUNCH_FUNCTION}(ptr %body, ptr %context, i64 %phases, i64 %chunks) nounwind {{
entry:
  %several = icmp sgt i64 %chunks, 1
  %any = icmp sgt i64 %phases, 0
  %shared = and i1 %several, %any
  br i1 %shared, label %ask, label %serial
ask:
  %ours = call i1 @take()
  br i1 %ours, label %staff, label %serial
staff:
  %wanted = sub i64 %chunks, 1
  %started = load i64, ptr @started
  %enough = icmp sge i64 %started, %wanted
  br i1 %enough, label %publish, label %hire
hire:
  call void @start_workers(i64 %wanted)
  br label %publish
publish:
  %before = load i64, ptr @epoch
  %first = add i64 %before, 1
  %last = add i64 %before, %phases
  store i64 %last, ptr @epoch
  store ptr %body, ptr @body
  store ptr %context, ptr @context
  store i64 %first, ptr @first
  store i64 %last, ptr @last
  {_GET_MODES}
  store atomic i64 %chunks, ptr @remaining monotonic, align 8
  %shifted = shl i64 %first, {_CHUNK_BITS}
  %opened = or i64 %shifted, %chunks
  store atomic i64 %opened, ptr @open seq_cst, align 8
  br label %look
look:
  %word = load atomic i64, ptr @open acquire, align 8
  %closed = icmp eq i64 %word, 0
  br i1 %closed, label %release, label %join
join:
  call void @wake_next(i64 0, i64 %chunks)
  call void @run_chunks(i64 %word, i64 0)
  call i64 @wait(ptr @caller, i64 %word, i64 0)
  br label %look
release:
  store atomic i64 0, ptr @taken release, align 8
  ret void
serial:
  br label %phase.test
phase.test:
  %phase = phi i64 [ 0, %serial ], [ %phase.next, %phase.done ]
  %phase.more = icmp slt i64 %phase, %phases
  br i1 %phase.more, label %chunk.test, label %end
chunk.test:
  %chunk = phi i64 [ 0, %phase.test ], [ %chunk.next, %chunk.run ]
  %chunk.more = icmp slt i64 %chunk, %chunks
  br i1 %chunk.more, label %chunk.run, label %phase.done
chunk.run:
  call void %body(ptr %context, i64 %phase, i64 %chunk)
  %chunk.next = add i64 %chunk, 1
  br label %chunk.test
phase.done:
  %phase.next = add i64 %phase, 1
  br label %phase.test
end:
  ret void
}}
"""

THREAD_POOL = "\n".join((_STATE, THREAD_PLACES, _SLEEP_TEXT, _WORK_TEXT, _START_TEXT, _LAUNCH_TEXT))
