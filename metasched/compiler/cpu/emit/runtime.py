"""What does not depend on the kernel: starting a parallel region, and workspaces.

Code that runs a region on several threads:

1. asks how many it may take: `i64 allowed(ptr table, i64 most)`, at least 1 and at most `most`, which is no more than
   the target's threads; the chunks of a region are as many, or fewer;
2. stores what the chunks need in a context of its own, on its stack;
3. calls `void launch(ptr body, ptr context, i64 phases, i64 chunks)`, which returns when all is done.

A body is `void body(ptr context, i64 phase, i64 chunk)`. It is called once for every phase and chunk, by whatever
thread, and all chunks of a phase have ended, and what they stored is seen, before one of the next phase starts. A phase
that has less to do leaves chunks empty. A chunk is what the slices of a workspace belong to, so two chunks never run on
one slice. A body of one phase is a single parallel loop. See `thread_pool` for how.

Both functions are found in the process's table, whose address is in every module's `STATE`. They may be called
anywhere: inside a region, and where another thread uses the pool, `launch` runs all chunks on the calling thread.
"""

from __future__ import annotations

from enum import IntEnum

from metasched.compiler.cpu.emit.thread_pool import (
    LAUNCH_FUNCTION,
    MAX_CHUNKS,
    RESET_FUNCTION,
    START_FUNCTION,
    THREAD_POOL,
)

# Slots of eight bytes in the process's table. LIMIT is the number of threads to use where nobody says otherwise, 0 for
# any. THREAD_COUNT is a function that gives the calling thread's number instead, IN_PARALLEL one that says whether it
# is in a parallel region of another library; both may be null.
LAUNCH, ALLOWED, LIMIT, THREAD_COUNT, IN_PARALLEL, TILES, SLOTS = range(7)

STATE = "metasched_state"
SLOT = "metasched_slot"


class Status(IntEnum):
    """What a kernel's entry returns."""

    OK = 0
    NO_MEMORY = 1
    NOT_PLAIN = 2  # the arguments need another look
    NO_TILES = 3


GLOBALS = f"""\
@{STATE} = global ptr null
@{SLOT} = global ptr null
"""

ALLOWED_FUNCTION = "metasched_allowed"

METADATA = ('!0 = !{!"llvm.loop.unroll.disable"}', '!1 = !{!"llvm.loop.vectorize.enable", i1 false}')

_ALLOWED_TEXT = f"""\
define i64 @{ALLOWED_FUNCTION}(ptr %table, i64 %most) nounwind {{
entry:
  %inside.at = getelementptr i64, ptr %table, i64 {IN_PARALLEL}
  %inside = load atomic ptr, ptr %inside.at acquire, align 8
  %untold = icmp eq ptr %inside, null
  br i1 %untold, label %count, label %ask
ask:
  %in_parallel = call i32 %inside()
  %nested = icmp ne i32 %in_parallel, 0
  br i1 %nested, label %one, label %count
one:
  ret i64 1
count:
  %count.at = getelementptr i64, ptr %table, i64 {THREAD_COUNT}
  %count.function = load atomic ptr, ptr %count.at acquire, align 8
  %uncounted = icmp eq ptr %count.function, null
  br i1 %uncounted, label %limit, label %call
limit:
  %limit.at = getelementptr i64, ptr %table, i64 {LIMIT}
  %limit.set = load atomic i64, ptr %limit.at monotonic, align 8
  %unlimited = icmp eq i64 %limit.set, 0
  %limit.here = select i1 %unlimited, i64 {MAX_CHUNKS}, i64 %limit.set
  br label %choose
call:
  %counted = call i32 %count.function()
  %wide = sext i32 %counted to i64
  br label %choose
choose:
  %given = phi i64 [ %limit.here, %limit ], [ %wide, %call ]
  %fewer = icmp slt i64 %given, %most
  %least = select i1 %fewer, i64 %given, i64 %most
  %many = icmp sgt i64 %least, {MAX_CHUNKS}
  %fitting = select i1 %many, i64 {MAX_CHUNKS}, i64 %least
  %some = icmp sgt i64 %fitting, 1
  %threads = select i1 %some, i64 %fitting, i64 1
  ret i64 %threads
}}
"""

# The module that a process has once: what the functions of the table are.
PROCESS_MODULE = THREAD_POOL + _ALLOWED_TEXT
PROCESS_FUNCTIONS = (LAUNCH_FUNCTION, ALLOWED_FUNCTION, START_FUNCTION, RESET_FUNCTION)

# Linux gives a process AMX's tile registers when it asks for them, once: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA).
_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA = 158, 0x1023, 18

TILES_CHECK = f"""\
  %tiles.state = load ptr, ptr @{STATE}
  %tiles.at = getelementptr i64, ptr %tiles.state, i64 {TILES}
  %tiles.flag = load atomic i64, ptr %tiles.at monotonic, align 8
  %tiles.known = icmp ne i64 %tiles.flag, 0
  br i1 %tiles.known, label %tiles.there, label %tiles.ask
tiles.ask:
  %tiles.answer = call i64 (i64, ...) @syscall(i64 {_SYS_ARCH_PRCTL}, i64 {_ARCH_REQ_XCOMP_PERM}, i64 {_XTILEDATA})
  %tiles.refused = icmp ne i64 %tiles.answer, 0
  br i1 %tiles.refused, label %tiles.none, label %tiles.given
tiles.none:
  ret i32 {int(Status.NO_TILES)}
tiles.given:
  store atomic i64 1, ptr %tiles.at monotonic, align 8
  br label %tiles.there
tiles.there:
"""

TILES_DECLARATIONS = {"@syscall": "declare i64 @syscall(i64, ...)"}

NO_WORKSPACE = """\
  call void @body({arguments}, ptr null)
  ret i32 0
"""

# A workspace is taken out of the module's one slot, or allocated; afterwards it goes into the slot, or is freed. A new
# one is zero: whole vectors compute with lanes that nothing was stored to, and are slow where denormals are in them.
WORKSPACE = f"""\
  %given = icmp ne ptr %workspace, null
  br i1 %given, label %use_given, label %take
use_given:
  call void @body({{arguments}}, ptr %workspace)
  ret i32 0
take:
  %idle = atomicrmw xchg ptr @{SLOT}, ptr null acq_rel
  %none = icmp eq ptr %idle, null
  br i1 %none, label %allocate, label %run
allocate:
  %new = call ptr @aligned_alloc(i64 64, i64 {{size}})
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %no_memory, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr align 64 %new, i8 0, i64 {{size}}, i1 false)
  br label %run
no_memory:
  ret i32 {int(Status.NO_MEMORY)}
run:
  %memory = phi ptr [ %idle, %take ], [ %new, %clear ]
  call void @body({{arguments}}, ptr %memory)
  %back = cmpxchg ptr @{SLOT}, ptr null, ptr %memory acq_rel monotonic
  %kept = extractvalue {{{{ ptr, i1 }}}} %back, 1
  br i1 %kept, label %done, label %surplus
surplus:
  call void @free(ptr %memory)
  br label %done
done:
  ret i32 0
"""

WORKSPACE_DECLARATIONS = {
    "@aligned_alloc": "declare noalias ptr @aligned_alloc(i64, i64)",
    "@free": "declare void @free(ptr)",
    "@llvm.memset.p0.i64": "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
}
