"""What a call runs: where values lie in memory, packed weights, steps, and how long they take.

Its files, in reading order:

- `plan`: Where the values of a network lie in memory: one arena for what lives during a call, by lifetimes
- `memory`: Memory of networks: pages of the system's, zero until they are written, in large pages where it has them
- `output_memory`: Memory of results: what a caller has let go is written again
- `execution_plan`: What a call of a network runs, as data: kernels, where arguments lie, what becomes of outputs and
  states
- `steps`: Machine code of steps in this process, and the table by which compiled code calls them one after another
- `plain_constants`: Constants as kernels read them: aligned, the last dimension contiguous
- `weights`: Weights of a network as its kernels read them, held once in one piece of memory
- `packed_constants`: Constants of a graph that was compiled: kernels have copies, so the arrays are made again where
  somebody asks
- `state`: What a network holds between calls: states, such as a decoder's cache of keys and values
- `executable`: A network that runs: one call of compiled code for all kernels, over one arena
- `loop_planning`: Where values of loops are, and what is done around their steps
- `planning`: From a graph and machine code of its kernels to what runs: where each value lies, packed weights, and the
  steps
- `profile`: Where a network's time goes: each kernel's in place, its share of the machine's limit, where its schedule
  is from
- `memory_figures`: What a network holds in memory, for a person: weights once, states, code, and what lives during a
  call
"""
