"""Schedules: primitives, random variables, traces, and the handlers that run them.

Its files, in reading order:

- `context`: What a primitive works on: the program as it is now, and the way to state what it needs
- `kinds`: What a primitive's parameters and results are: the vocabulary of its declaration
- `values`: What a person holds while writing a schedule: handles, and integer random variables
- `batching`: What a primitive works on when a trace for one element of a batch is carried over to the whole batch
- `primitive`: Declaring primitives and samplers, and the registry that finds and checks them
- `arguments`: Arguments of a primitive: bound to its parameters, and checked against their kinds
- `resolve`: What the arguments of an instruction stand for: names in the program, expressions, literals
- `versions`: What an instruction of a trace means here: its primitive, and itself in the version that this metasched
  has
- `methods`: The methods of a `Schedule` that are primitives and samplers, for type checkers and editors
- `primitives/`: The transformations and random variables of a schedule, a file each
- `distributions/`: Distributions: what a sampler draws from, for one candidate or for a population
- `sites`: What a call says of its line in the trace, and what a random variable of a schedule met
- `handlers`: Who decides: the handlers of random variables
- `interpreter`: A program being transformed by instructions, each of which is recorded
- `trace`: A schedule and its trace: a straight line of instructions and the decisions that its random variables took
- `module`: Modules: schedules as probabilistic programs, and running one again with given decisions
- `trace_check`: Validation of a trace: what is wrong with which line, everything that can be said at once
- `trace_diff`: What differs between two traces, whatever their handles are called
- `trace_python`: A trace as Python: a function over a schedule that takes the very same steps
- `trace_python_reader`: A trace from its Python form, as `trace_as_python` writes it
- `trace_outline`: A trace as two parts that can be compared without parsing it: a hash of its steps, and what was
  decided in them
- `trace_renaming`: A trace in the names of another program of the same structure: of its blocks, buffers and loops, and
  addresses
- `trace_files`: Traces in files: as text, JSON or Python, by how a file's name ends
- `rewrite/`: What the structural primitives share: finding, inserting, regions, guards
- `analysis`: What a rule may ask of a block: what is true of the program as it is now
- `block_queries`: What a module in text may ask of the program and of the target: the vocabulary of its conditions
- `index_maps`: Index maps that a person writes as a function, and those that primitives are given as text
- `annotation`: Declaring annotations: what a schedule may say to the compiler of a loop or a block, and what it
  requires there
- `annotations/`: What a schedule may say to the compiler of a loop or a block, a file for each key: its name is the key
- `tensor`: Tensor intrinsics, and where a loop nest is what one computes
- `intrinsics/`: Tensor intrinsics: what each computes, a file each
- `summation`: Which sums are so long that they are taken in blocks
"""
