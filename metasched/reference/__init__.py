"""The reference: any program, scheduled or not, run in the plainest way. It shares nothing with the compiler.

Its files, in reading order:

- `rounding`: Which floats of a program are rounded in a shorter type, as far as their expressions tell
- `bounds`: The bound of an expression's rounding error, as an expression that the reference computes beside it
- `error_bounds`: Rewrites of a program that the reference runs to check another's results
- `state`: What both executors of the reference share: the arrays of one run, and how a run can fail
- `memory`: Where the temporaries of a large program lie while it runs: those never needed at one time share memory
- `interpreter`: The reference, interpreted: the program written out as Python source that computes with NumPy scalars
- `machine_code`: Machine code of the reference, made by LLVM of a module's text and loaded into this process
- `machine_operations`: What operations of the IR are in LLVM's: arithmetic, comparisons and casts in each type
- `machine_calls`: Calls of math functions in LLVM IR: what a function says of itself to Numba, as calls of C's
- `loop_order`: The order in which the compiled reference goes through a perfect nest, and its memory
- `work`: How much a program computes, and which way of running it takes the least time for so much
- `compiled_loops`: The reference as machine code: the program written out as loops in LLVM's language
- `execution`: The oracle: runs any concrete program, scheduled or not, in the plainest way
"""
