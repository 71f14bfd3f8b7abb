"""Tensor intrinsics: what each computes, a file each. How, is the file of the same name in `metasched.compiler.cpu`.

A file's docstring says what the instruction is; `FEATURES` are LLVM's names of the instruction sets that it takes;
`PROGRAM` is what it computes. The last axis of each operand is contiguous in memory; the others may have any stride.
The last axis of the output runs along vector lanes.
"""
