"""What does not depend on the kernel: launching a parallel loop, and workspaces.

The launcher is a module of its own, compiled once per process; kernels find it in the process's state.

A parallel loop is divided into chunks, one a thread. A layer calls the task back with a run of chunks: their number
is `dimensions[0]`, and the first is the address in `args[0]`, which starts at null and steps by one byte a chunk.

Where the layer cannot take the call the chunks run one after another on the calling thread: inside another parallel
region, or when the layer takes one caller at a time (workqueue aborts the process otherwise) and has one.
"""

from __future__ import annotations

from enum import IntEnum

# Slots of eight bytes in the process's state.
(
    LAUNCH,
    ALLOWED,
    PARALLEL_FOR,
    THREAD_COUNT,
    IN_PARALLEL,
    THREAD_IDENT,
    EXCLUSIVE,
    BUSY,
    FORKED,
    TILES,
    WORKERS,
    FIRST_WORKER,
) = range(12)

STATE = "metasched_state"
SLOT = "metasched_slot"


class Status(IntEnum):
    """What a kernel's entry returns."""

    OK = 0
    NO_MEMORY = 1
    FORKED = 2
    NOT_PLAIN = 3  # the arguments need another look
    NO_TILES = 4


GLOBALS = f"""\
@{STATE} = global ptr null
@{SLOT} = global ptr null
"""

LAUNCH_FUNCTION = "metasched_launch"
ALLOWED_FUNCTION = "metasched_allowed"

METADATA = ('!0 = !{!"llvm.loop.unroll.disable"}', '!1 = !{!"llvm.loop.vectorize.enable", i1 false}')


def _slot(n: int) -> str:
    return f"getelementptr i64, ptr %state, i64 {n}"


LAUNCHER = f"""\
@{STATE} = global ptr null

define void @{LAUNCH_FUNCTION}(ptr %task, ptr %context, i64 %chunks) nounwind {{
entry:
  %args = alloca ptr
  %dimensions = alloca [2 x i64]
  %steps = alloca [2 x i64]
  store ptr null, ptr %args
  store i64 %chunks, ptr %dimensions
  %dimension.1 = getelementptr i64, ptr %dimensions, i64 1
  store i64 1, ptr %dimension.1
  store i64 1, ptr %steps
  %step.1 = getelementptr i64, ptr %steps, i64 1
  store i64 1, ptr %step.1
  %state = load ptr, ptr @{STATE}
  %single = icmp sle i64 %chunks, 1
  br i1 %single, label %serial, label %nested
nested:
  %in_parallel.at = {_slot(IN_PARALLEL)}
  %in_parallel = load ptr, ptr %in_parallel.at
  %untold = icmp eq ptr %in_parallel, null
  br i1 %untold, label %exclusive, label %ask
ask:
  %inside = call i32 %in_parallel()
  %is_inside = icmp ne i32 %inside, 0
  br i1 %is_inside, label %serial, label %exclusive
exclusive:
  %exclusive.at = {_slot(EXCLUSIVE)}
  %exclusive.flag = load i64, ptr %exclusive.at
  %is_exclusive = icmp ne i64 %exclusive.flag, 0
  br i1 %is_exclusive, label %identify, label %parallel
identify:
  %ident.at = {_slot(THREAD_IDENT)}
  %ident = load ptr, ptr %ident.at
  %self = call i64 %ident()
  %workers.at = {_slot(WORKERS)}
  %workers = load i64, ptr %workers.at
  %unknown = icmp eq i64 %workers, 0
  br i1 %unknown, label %serial, label %search
search:
  %n = phi i64 [ 0, %identify ], [ %n.next, %differs ]
  %slot = add i64 %n, {FIRST_WORKER}
  %worker.at = getelementptr i64, ptr %state, i64 %slot
  %worker = load i64, ptr %worker.at
  %is_worker = icmp eq i64 %worker, %self
  br i1 %is_worker, label %serial, label %differs
differs:
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, %workers
  br i1 %more, label %search, label %acquire
acquire:
  %busy.at = {_slot(BUSY)}
  %exchange = cmpxchg ptr %busy.at, i64 0, i64 1 acquire monotonic
  %acquired = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %acquired, label %parallel, label %serial
parallel:
  %parallel_for.at = {_slot(PARALLEL_FOR)}
  %parallel_for = load ptr, ptr %parallel_for.at
  call void %parallel_for(ptr %task, ptr %args, ptr %dimensions, ptr %steps, ptr %context, i64 1, i64 1, i64 %chunks)
  br i1 %is_exclusive, label %release, label %done
release:
  %busy.at.2 = {_slot(BUSY)}
  store atomic i64 0, ptr %busy.at.2 release, align 8
  br label %done
serial:
  call void %task(ptr %args, ptr %dimensions, ptr %steps, ptr %context)
  br label %done
done:
  ret void
}}

define i64 @{ALLOWED_FUNCTION}(i64 %most) nounwind {{
entry:
  %state = load ptr, ptr @{STATE}
  %count.at = {_slot(THREAD_COUNT)}
  %count = load ptr, ptr %count.at
  %unstarted = icmp eq ptr %count, null
  br i1 %unstarted, label %one, label %ask
one:
  ret i64 1
ask:
  %allowed = call i32 %count()
  %wide = sext i32 %allowed to i64
  %fewer = icmp slt i64 %wide, %most
  %least = select i1 %fewer, i64 %wide, i64 %most
  %some = icmp sgt i64 %least, 1
  %threads = select i1 %some, i64 %least, i64 1
  ret i64 %threads
}}
"""

FORK_CHECK = f"""\
  %state = load ptr, ptr @{STATE}
  %forked.at = {_slot(FORKED)}
  %forked.flag = load i64, ptr %forked.at
  %forked = icmp ne i64 %forked.flag, 0
  br i1 %forked, label %refuse, label %start
refuse:
  ret i32 {int(Status.FORKED)}
start:
"""

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

# A workspace is taken out of the module's one slot, or allocated; afterwards it goes into the slot, or is freed.
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
  br i1 %failed, label %no_memory, label %run
no_memory:
  ret i32 {int(Status.NO_MEMORY)}
run:
  %memory = phi ptr [ %idle, %take ], [ %new, %allocate ]
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
}
