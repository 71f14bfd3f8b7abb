"""Tensor intrinsics: what each computes, a file each. The file of the same name in `metasched.compiler.cpu` emits it.

A file's docstring describes the instruction; the file defines these names and no others:

* `FEATURES`, LLVM's names of the instruction sets that it requires, a tuple.
* `PROGRAM`, what it computes: one stage, a reduction, named after the file. The last axis of each operand is contiguous
  in memory; the others may have any stride. The last axis of the output runs along vector lanes.
* `VECTOR_BITS`, the size of the registers that it computes in; the last axis of the output fills some of them.
* `TILES`, True where it computes in tile registers instead.
* `DENSE`, by operand, how many of its last axes must be contiguous in memory, if more than one.
* `LAYOUT`, advice for messages on how to arrange operands.
* `THROUGHPUT`, cycles from one use to the next, by default one for each vector, or row of a tile, of its output; and
  `LATENCY`, cycles until the next use may add to the same output, by default four more. Estimates are made with them.
* `REGISTERS`, vector registers that it takes beside those of its operands, by default none.
* `FLUSHES_DENORMALS`, True where it treats denormals as zero.
"""
