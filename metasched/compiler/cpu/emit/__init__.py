"""Emission: from the low-level loop program to the text of an LLVM module.

Its files, in reading order:

- `native`: What a target has an instruction for, where others need several
- `types`: LLVM's spelling of element types, vectors and constants
- `formulas`: Math functions in LLVM: their formulas (`metasched.functions.library`) as instructions, inlined into
  kernels
- `text`: The text of one LLVM function under construction
- `conversions/`: Conversions between types of numbers, as arithmetic on their bits where no instruction does it
- `arith`: Arithmetic on values: one function per operation, the same for scalars and vectors
- `indices`: Index arithmetic during emission: linear forms, their ranges, and what unrolled loops make of them
- `scope`: What the emitter knows at a point of a function: variables, arrays, the vector lane, and conditions in force
- `accesses/`: Reads and writes of arrays: where they go, which lanes they have, and how vectors are put together
- `expressions`: Expressions: values of LIR expressions in a scope, in scalars where lanes agree and vectors where they
  do not
- `arg_reductions`: Values and their positions in arg-reductions: updates by comparison and selection, in scalars and in
  lanes
- `thread_places`: Where the pool's threads wake up, as LLVM text: not on the processor of who wakes them, which is busy
- `thread_pool`: The pool of threads, as LLVM text: what every parallel loop of a process runs on, compiled once and
  never unloaded
- `runtime`: What does not depend on the kernel: starting a parallel region, and workspaces
- `tiles`: AMX's tile registers: eight of 16 rows of 64 bytes, numbered in the program text
- `tensor`: The vocabulary of emitters of tensor intrinsics: operands as vectors, and calls of LLVM's intrinsics
- `byte_dots`: vpdpbusd, the sum of four products of bytes in each lane, in registers of any size and of signed bytes,
  too
- `counters`: Counters of the CPU's clock around parts of a kernel, in a variant of it that is made to be profiled
- `statements`: Statements: loops, vector strips, conditions and writes of one function
- `scheduling`: Which CPU's pipeline LLVM orders instructions for, where its own model of a CPU takes too many
  registers
- `sharing`: How threads share the iterations of a parallel loop: each begins with a range of its own, and then helps
  others
- `module`: A whole LLVM module for a kernel: its body, functions for each parallel region, and the entry
- `python_entry`: A second entry that takes NumPy arrays as they are: it checks their headers, and calls the kernel with
  their data
- `step_actions`: What a table of steps does between kernels, as functions that are called like them
- `steps`: Kernels called one after another from compiled code, from a table: a network's steps
"""
