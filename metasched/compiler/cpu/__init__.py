"""Machine code for CPUs: `emit` writes LLVM, with `intrinsics`; LLVM compiles it, as Numba sets it up.

Its files, in reading order:

- `codegen`: Machine code: LLVM's code generator as Numba uses it, for any target and with a light pipeline of passes
- `emit/`: Emission: from the low-level loop program to the text of an LLVM module
- `first_use`: The code generator, imported when something is first compiled
- `intrinsics/`: How tensor intrinsics are emitted, a file each: `emit(operands)` for the description of the same name
  in `metasched.schedule.intrinsics`
- `spills`: Which innermost loops keep vectors in memory for lack of registers, as LLVM's comments in assembly tell
- `undefined_symbols`: What an ELF object of 64 bits refers to and does not define: functions of libraries, by name
"""
