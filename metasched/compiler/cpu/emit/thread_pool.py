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
- **Waiting.** A thread without work looks for it `_SPINS` times (some 20 to 50 us), and sleeps then. It says that it is
  about to sleep before it looks a last time, and whoever changes `@open` looks for sleepers afterwards: both are
  sequentially consistent, so none is missed (Dekker's argument).
- **One region at a time.** A caller that finds the pool taken, by another thread or by itself further up, runs its
  chunks one after another on its own thread. Nobody waits for a region but its caller.
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

# `void metasched_launch(body, context, phases, chunks)`: run a region of at most MAX_CHUNKS chunks; returns at its end.
LAUNCH_FUNCTION = "metasched_launch"
# `void metasched_pool_start(threads)`: have the threads ready that so many chunks want, the caller's included.
START_FUNCTION = "metasched_pool_start"
# `void metasched_pool_reset()`: forget all threads and whatever they were doing, in a child that was forked.
RESET_FUNCTION = "metasched_pool_reset"

_CHUNK_BITS = 10
MAX_CHUNKS = (1 << _CHUNK_BITS) - 1

_X86 = platform.machine().lower() in {"x86_64", "amd64"}
# A pause is 40 to 140 cycles on x86, and next to nothing elsewhere.
_SPINS = 1000 if _X86 else 20_000
_PAUSE = "call void @llvm.x86.sse2.pause()" if _X86 else ""
_GET_MODES = "call void @llvm.x86.sse.stmxcsr(ptr @modes)" if _X86 else ""
_SET_MODES = "call void @llvm.x86.sse.ldmxcsr(ptr @modes)" if _X86 else ""
_X86_DECLARATIONS = """\
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
"""
_FAULTS = (signal.SIGSEGV, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, getattr(signal, "SIGBUS", signal.SIGSEGV))
_SIG_SETMASK = 3 if sys.platform == "darwin" else 2
_KEEP_FAULTS = "\n".join(f"  call i32 @sigdelset(ptr %signals, i32 {int(s)})" for s in dict.fromkeys(_FAULTS))

# Bytes of a cache line, and room for a mutex and a condition variable of any C library.
_LINE = 64
_SLEEPER = "{ i64, [56 x i8], [64 x i8], [64 x i8] }"
_SLEEPER_BYTES = 192

_STATE = f"""\
; Whether it sleeps, its mutex, its condition variable.
%sleeper = type {_SLEEPER}

@open = internal global i64 0, align {_LINE}
@body = internal global ptr null
@context = internal global ptr null
@first = internal global i64 0
@last = internal global i64 0
@modes = internal global i32 0
@remaining = internal global i64 0, align {_LINE}
@taken = internal global i64 0, align {_LINE}
@epoch = internal global i64 0
@started = internal global i64 0
@caller = internal global %sleeper zeroinitializer, align {_LINE}
@claims = internal global [{MAX_CHUNKS + 1} x i64] zeroinitializer, align {_LINE}
@workers = internal global [{MAX_CHUNKS + 1} x ptr] zeroinitializer, align {_LINE}

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
declare noalias ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
{_X86_DECLARATIONS if _X86 else ""}
"""

_SLEEPING = f"""\
define internal void @sleeper_init(ptr %self) nounwind {{
  store atomic i64 0, ptr %self monotonic, align 8
  %mutex = getelementptr %sleeper, ptr %self, i64 0, i32 2
  %condition = getelementptr %sleeper, ptr %self, i64 0, i32 3
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}}

; Wait until `@open` is no longer `word`, or for no reason: look `spins` times, then sleep. Returns the looks not used.
define internal i64 @wait(ptr %self, i64 %word, i64 %spins) noinline nounwind {{
entry:
  br label %spin
spin:
  %left = phi i64 [ %spins, %entry ], [ %less, %again ]
  %now = load atomic i64, ptr @open acquire, align 8
  %same = icmp eq i64 %now, %word
  br i1 %same, label %patient, label %changed
patient:
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %again, label %sleep
again:
  %less = sub i64 %left, 1
  {_PAUSE}
  br label %spin
changed:
  ret i64 %left
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
  br label %awake
awake:
  store atomic i64 0, ptr %self monotonic, align 8
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret i64 0
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
  call i32 @pthread_mutex_unlock(ptr %mutex)
  call i32 @pthread_cond_signal(ptr %condition)
  br label %done
done:
  ret void
}}

; Wake those that a phase of so many chunks has work for.
define internal void @wake_workers(i64 %chunks) nounwind {{
entry:
  fence seq_cst
  %started = load atomic i64, ptr @started monotonic, align 8
  %wanted = sub i64 %chunks, 1
  %fewer = icmp slt i64 %started, %wanted
  %count = select i1 %fewer, i64 %started, i64 %wanted
  br label %test
test:
  %n = phi i64 [ 0, %entry ], [ %n.next, %next ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %next, label %done
next:
  %worker.at = getelementptr ptr, ptr @workers, i64 %n
  %worker = load ptr, ptr %worker.at
  call void @wake(ptr %worker)
  %n.next = add i64 %n, 1
  br label %test
done:
  ret void
}}
"""

_WORKING = f"""\
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
  %claim = getelementptr i64, ptr @claims, i64 %chunk
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
  call void @wake_workers(i64 %chunks)
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
  br label %look
look:
  %spins = phi i64 [ {_SPINS}, %entry ], [ %spins.next, %idle ]
  %word = load atomic i64, ptr @open acquire, align 8
  %chunks = and i64 %word, {MAX_CHUNKS}
  %wanted = icmp ult i64 %own, %chunks
  br i1 %wanted, label %join, label %idle
join:
  call void @run_chunks(i64 %word, i64 %own)
  br label %idle
idle:
  %budget = phi i64 [ %spins, %look ], [ {_SPINS}, %join ]
  %spins.next = call i64 @wait(ptr %self, i64 %word, i64 %budget)
  br label %look
}}
"""

_STARTING = f"""\
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
  %self = call ptr @aligned_alloc(i64 {_LINE}, i64 {_SLEEPER_BYTES})
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
  store atomic i64 %n.next, ptr @started monotonic, align 8
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

_LAUNCH = f"""\
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
  call void @wake_workers(i64 %chunks)
  br label %look
look:
  %word = load atomic i64, ptr @open acquire, align 8
  %closed = icmp eq i64 %word, 0
  br i1 %closed, label %release, label %join
join:
  call void @run_chunks(i64 %word, i64 0)
  call i64 @wait(ptr @caller, i64 %word, i64 {_SPINS})
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

THREAD_POOL = "\n".join((_STATE, _SLEEPING, _WORKING, _STARTING, _LAUNCH))
