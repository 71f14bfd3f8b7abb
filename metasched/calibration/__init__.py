"""The machine measures itself: small loops, and the constants of the cost model that follow.

Its files, in reading order:

- `probes`: What a calibration measures, a probe a constant, and what each was on the machine that the defaults are for
- `calibration`: What a machine has measured of itself, as a value and as text
- `store`: The calibrations of a user's machines: a text file for each kind of machine, in the user's cache folder
- `machine_code`: Loops in LLVM text, compiled by the code generator that kernels use, to measure what a machine can do
- `cycles`: Cycles of a core, counted by a chain of additions: each waits one cycle for the one before, on every CPU
- `core_loops`: What one core does in a cycle, on data in registers and in its first cache
- `regions`: What it costs to start threads on a parallel region, and to have them wait for one another inside
- `memory_loops`: Bytes a cycle from each level of memory, for one thread and for several at once, and how much more
  lines take that are not next to one another
- `tensor_loops`: Cycles from one use of a tensor intrinsic to the next, by kernels that are compiled as all others are
- `measuring`: Measuring this machine: every probe, in some seconds
"""
