"""Kernels as their users hold them: calls from Python and from Numba, threads, packed weights, export.

Its files, in reading order:

- `amx_permission`: What the system lets a process use, beyond what the CPU has
- `shared_pool`: The pool of threads that a process has, whoever brings its code: this package, or a kernel that was
  exported
- `threads`: The process's table: where the code of kernels finds the pool of threads, and how many of them it may use
- `compiled`: A compiled kernel: object code that can travel between processes, and the same loaded and callable
- `arguments`: Checks of what a kernel is called with
- `export/`: Kernels as files of their own, which run without this package
- `foreign`: Arrays of other libraries: taken where they lie, and given back as theirs
- `numba_form`: Kernels inside `@njit` code
- `callable_kernel`: Calls of compiled programs with every argument checked: from Python, and from Numba
- `numba_typing`: `kernel(A, B)` and `kernel.numba(A, B)` inside `@njit` code: what Numba knows of a `Kernel` that it
  meets there as a global, in a closure, or as an argument
- `first_use`: Registers kernels with Numba; imported before the first kernel is made
- `packing`: Weights packed ahead of time: what a program computes from its weights alone, taken out of it
- `recipe`: Kernels in other processes: what they are made of travels, and machine code is made again where it arrives
- `packed`: A kernel whose weights are packed: what packs them, and what is called afterwards
- `kernel`: The kernel that a user holds: a callable kernel that can be packed and pickled
- `memory_order`: How an array lies in memory
- `taken`: The arguments of one call of `ms.kernel`'s function: what types they have, and how they lie in memory
"""
