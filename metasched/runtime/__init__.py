"""Kernels as their users hold them: calls from Python and from Numba, threads, packed weights, export.

Its files, in reading order:

- `addresses`: Addresses of arrays, as compiled code takes them, and arrays at addresses that suit it
- `shared_pool`: The pool of threads that a process has, whoever brings its code: this package, or a kernel that was
  exported
- `child_locks`: Locks of calls, which are free in a forked child: the thread that held one in the parent is not there
  to release it
- `threads`: The process's table: where the code of kernels finds the pool of threads, and how many of them it may use
- `machine_check`: Whether this machine can run code that was compiled for a target
- `compiled`: A compiled kernel: object code that can travel between processes, and the same loaded and callable
- `arguments`: Checks of what a kernel is called with
- `export/`: Kernels as files of their own, which run without this package
- `foreign`: Arrays of other libraries: passed without a copy, and returned as arrays of that library
- `numba_form`: Kernels inside `@njit` code
- `callable_kernel`: Calls of compiled programs with every argument checked: from Python, and from Numba
- `numba_typing`: `kernel(A, B)` and `kernel.numba(A, B)` inside `@njit` code: what Numba knows of a `Kernel` that it
  meets there as a global, in a closure, or as an argument
- `packing`: Why a schedule computes nothing from its weights ahead of time, and what to schedule so that it does
- `part_times`: The time of each part of a kernel, by counters in a variant of it that is compiled for that
- `recipe`: Pickled kernels: program, trace and target are pickled, and compiled again where they are loaded
- `packed`: Kernels with packed weights: packing them, and calling the kernel afterwards
- `kernel`: The kernel that a user holds: a callable kernel that can be packed and pickled
- `memory_order`: How an array lies in memory
- `call_argument`: The arguments of one call of `ms.kernel`'s function: their types, and their memory layouts
"""
