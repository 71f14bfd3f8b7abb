"""Schedules: primitives, random variables, traces, and the handlers that run them.

Its files, in reading order:

- `context`: The state that a primitive works on: the current program, and how to state preconditions
- `kinds`: The kinds of a primitive's parameters and results, from which its declaration is read
- `values`: The values that schedule methods return: handles, and integer random variables
- `batching`: What a primitive works on when a trace for one element of a batch is carried over to the whole batch
- `primitive`: Declaring primitives and samplers, and the registry that finds and checks them
- `arguments`: Arguments of a primitive: bound to its parameters, and checked against their kinds
- `resolve`: Resolving an instruction's arguments to names in the program, expressions and literals
- `versions`: The primitive of a trace's instruction, and the instruction upgraded to the current version
- `methods`: The methods of a `Schedule` that are primitives and samplers, for type checkers and editors
- `primitives/`: The transformations and random variables of a schedule, a file each
- `distributions/`: The distributions that samplers draw from, for one candidate or for a population
- `sites`: Options of a call that concern its line in the trace, and the record of a random variable
- `handlers`: Handlers, which decide random variables
- `step_memo`: Results of steps, kept so that the same step on the same program is not computed again
- `interpreter`: Executes and records the instructions that transform a program
- `trace`: A schedule and its trace: a straight-line sequence of instructions with the decisions of its random variables
- `module`: Modules: schedules as probabilistic programs, and running one again with given decisions
- `trace_check`: Validation of a trace: finds all mistakes in one pass, each with its line
- `trace_diff`: The differences between two traces, up to the names of handles
- `trace_python`: A trace as Python: a function over a schedule that takes the same steps
- `trace_python_reader`: A trace from its Python form, as `trace_as_python` writes it
- `trace_permissions`: Which permissions a trace's steps need, without running them
- `trace_outline`: Compares traces without parsing them: by a hash of the steps, and the decisions
- `trace_renaming`: Translates a trace to another program of the same structure: the names of blocks, buffers and loops,
  and addresses
- `trace_files`: Traces in files: as text, JSON or Python, by how a file's name ends
- `rewrite/`: What the structural primitives share: finding, inserting, regions, guards
- `analysis`: Properties of a block in the current program, for rules
- `block_queries`: The queries about the program and the target that a module's text may use in conditions
- `index_maps`: Index maps given as Python functions or as text
- `annotation`: Declaring annotations, which direct the compiler at a loop or a block, and their preconditions
- `annotations/`: The annotations that direct the compiler at a loop or a block, a file each, named by its key
- `tensor`: Tensor intrinsics, and matching loop nests against them
- `tensor_fit`: How a block could be computed with a tensor intrinsic: which of its iteration variables are the
  instruction's axes
- `carried`: Carried loops as what they are run as: each element goes on from the one before
- `intrinsics/`: Tensor intrinsics: what each computes, a file each
- `summation`: Which sums are long enough to be summed in blocks
- `term_share`: How many of a reduction's terms are there, by the bounds that its condition has
"""
