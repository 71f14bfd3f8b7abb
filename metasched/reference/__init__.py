"""The reference: any program, scheduled or not, run in the plainest way. It shares nothing with the compiler.

Its files, in reading order:

- `conversions`: Conversions and arithmetic that Numba lacks, for the reference: `to_DTYPE(x)`, `add_i64(a, b)`
- `error_bounds`: Rewrites of a program that the reference runs to check another's results
- `state`: What both executors of the reference share: the arrays of one run, and how a run can fail
- `memory`: Where the temporaries of a large program lie while it runs: those never needed at one time share memory
- `interpreter`: The reference, interpreted: the program written out as Python source that computes with NumPy scalars
- `numba_loops`: The reference as plain Numba loops: the program written out as sequential Python source, then `njit`
- `execution`: The oracle: runs any concrete program, scheduled or not, in the plainest way
"""
