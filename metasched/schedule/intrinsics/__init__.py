"""Tensor intrinsics: what each computes, a file each. How, is the file of the same name in `metasched.compiler.cpu`.

A file's docstring says what the instruction is; what else it says are these names, and no others:

* `FEATURES`, LLVM's names of the instruction sets that it takes, a tuple.
* `PROGRAM`, what it computes: one stage, a reduction, named after the file. The last axis of each operand is contiguous
  in memory; the others may have any stride. The last axis of the output runs along vector lanes.
* `VECTOR_BITS`, the size of the registers that it computes in; the last axis of the output fills some of them.
* `TILES`, True where it computes in tile registers instead.
* `DENSE`, how many of an operand's last axes lie in memory without gaps, where that is more than one, by operand.
* `LAYOUT`, how a program comes to such operands, for messages.
* `FLUSHES_DENORMALS`, True where it takes numbers below the smallest normal one for zero.
"""
