"""From a scheduled program to machine code: lowering to loops over flat arrays, then a folder a kind of target.

Its files, in reading order:

- `lir`: The low-level loop program between lowering and emission
- `lir_printer`: The low-level program as text that a person can follow
- `policy`: What lowering decides by numbers, and the cost model has to know
- `absent_terms`: Terms of a reduction that are not there: the conditions that leave them out
- `lower/`: Lowering: from a scheduled `Func` to loops and flat arrays
- `cpu/`: Machine code for CPUs: `emit` writes LLVM, with `intrinsics`; LLVM compiles it, as Numba sets it up
"""
