"""Running programs: the reference executor, lowering to plain loops, and machine code through LLVM and Numba."""
