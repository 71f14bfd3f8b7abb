"""Where the pool's threads wake up, as LLVM text: not on the processor of who wakes them, which is busy.

Linux may wake a thread on the processor of its waker, expecting the waker to sleep, and leaves it there for some
milliseconds. But the waker computes, and spins at barriers: the two have one processor, and a parallel loop takes two
to four times as long as it should. (Seen in Linux 6.18 on two virtual processors, after a pause of 0.1 s, in two of
three calls.) So the waker takes its own processor from those that the thread may run on, as long as there are others;
the thread has it back as soon as it is awake. That takes a waker two system calls, a microsecond each.
"""

from __future__ import annotations

import sys

# The fields of a sleeper that belong to this: its thread, 0 for one whose processors are not ours to choose; whether a
# processor was taken from it; and those that it had.
PLACE_FIELDS = "i64, i64, [16 x i64]"
PLACE_BYTES = 144
_MASK_BYTES = 128
_PROCESSORS = 8 * _MASK_BYTES

_DECLARATIONS = """\
declare i64 @pthread_self()
declare i32 @sched_getcpu()
declare i32 @pthread_getaffinity_np(i64, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
"""

_LINUX_TEXT = f"""\
; By a thread of the pool, before it first sleeps.
define internal void @place_init(ptr %place) nounwind {{
  %self = call i64 @pthread_self()
  store i64 %self, ptr %place
  ret void
}}

; By a waker that holds the mutex of the sleeper.
define internal void @place_elsewhere(ptr %place) nounwind {{
entry:
  %left = alloca [{_MASK_BYTES // 8} x i64]
  %thread = load i64, ptr %place
  %is_ours = icmp ne i64 %thread, 0
  %taken.at = getelementptr {{ {PLACE_FIELDS} }}, ptr %place, i64 0, i32 1
  %taken = load i64, ptr %taken.at
  %is_free = icmp eq i64 %taken, 0
  %processor = call i32 @sched_getcpu()
  %is_known = icmp ult i32 %processor, {_PROCESSORS}
  %some = and i1 %is_ours, %is_free
  %all = and i1 %some, %is_known
  br i1 %all, label %read, label %done
read:
  %had = getelementptr {{ {PLACE_FIELDS} }}, ptr %place, i64 0, i32 2
  %refused = call i32 @pthread_getaffinity_np(i64 %thread, i64 {_MASK_BYTES}, ptr %had)
  %is_read = icmp eq i32 %refused, 0
  br i1 %is_read, label %copy, label %done
copy:
  %at = zext i32 %processor to i64
  %own = lshr i64 %at, 6
  %place.in = and i64 %at, 63
  %bit = shl i64 1, %place.in
  %others = xor i64 %bit, -1
  br label %next
next:
  %n = phi i64 [ 0, %copy ], [ %n.next, %next ]
  %any = phi i64 [ 0, %copy ], [ %any.next, %next ]
  %had.at = getelementptr i64, ptr %had, i64 %n
  %word = load i64, ptr %had.at
  %is_own = icmp eq i64 %n, %own
  %keep = select i1 %is_own, i64 %others, i64 -1
  %kept = and i64 %word, %keep
  %left.at = getelementptr i64, ptr %left, i64 %n
  store i64 %kept, ptr %left.at
  %any.next = or i64 %any, %kept
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, {_MASK_BYTES // 8}
  br i1 %more, label %next, label %decide
decide:
  %alone = icmp eq i64 %any.next, 0
  br i1 %alone, label %done, label %take
take:
  %kept.away = call i32 @pthread_setaffinity_np(i64 %thread, i64 {_MASK_BYTES}, ptr %left)
  %is_away = icmp eq i32 %kept.away, 0
  %mark = zext i1 %is_away to i64
  store i64 %mark, ptr %taken.at
  br label %done
done:
  ret void
}}

; By the thread itself once it is awake, which holds its mutex.
define internal void @place_anywhere(ptr %place) nounwind {{
entry:
  %taken.at = getelementptr {{ {PLACE_FIELDS} }}, ptr %place, i64 0, i32 1
  %taken = load i64, ptr %taken.at
  %is_free = icmp eq i64 %taken, 0
  br i1 %is_free, label %done, label %give_back
give_back:
  %thread = load i64, ptr %place
  %had = getelementptr {{ {PLACE_FIELDS} }}, ptr %place, i64 0, i32 2
  call i32 @pthread_setaffinity_np(i64 %thread, i64 {_MASK_BYTES}, ptr %had)
  store i64 0, ptr %taken.at
  br label %done
done:
  ret void
}}
"""

_OTHER_SYSTEM_TEXT = """\
define internal void @place_init(ptr %place) nounwind { ret void }
define internal void @place_elsewhere(ptr %place) nounwind { ret void }
define internal void @place_anywhere(ptr %place) nounwind { ret void }
"""

THREAD_PLACES = _DECLARATIONS + _LINUX_TEXT if sys.platform == "linux" else _OTHER_SYSTEM_TEXT
