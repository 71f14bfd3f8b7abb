"""Machine code for CPUs: `emit` writes LLVM, with `math` and `intrinsics`; Numba's code generator compiles it."""
