"""`ms.jit`: a Python function of arrays, traced once for each combination of shapes and types.

Its files, in reading order:

- `errors`: What cannot be traced, and where in the user's source it stands
- `structure`: Tuples, lists and dicts of arrays, as a flat list and back
- `promotion`: Element types of NumPy, and those that its functions give
- `trace`: The graph of a function while it is traced: operands, constants
- `bit_counts`: How many bits of integers are set
- `powers`: Powers, those of integers by squares
- `ufunc_form`: How a ufunc is written in the language: its expression, for kinds of types
- `scipy_ufuncs`: Ufuncs of `scipy.special` as expressions of the language: those that the language has functions for
- `elementwise`: NumPy's ufuncs as expressions of the language
- `registry`: The functions of NumPy that can be traced, found by their files
- `functions/`: The functions of NumPy that can be traced: a file a family
- `views`: Arrays that share the elements of another one
- `indexing`: Subscripts of arrays, read and assigned
- `ufunc_reductions`: Reductions by ufuncs, such as `np.add.reduce`: by functions of whole arrays, or of halves of rows
- `ufunc_methods`: The methods of ufuncs: `np.add.reduce`, `np.add.at`
- `traced_array`: What stands for an array while a function is traced
- `tracing`: From a function and the types of its arguments to a network
- `function`: `ms.jit`, and the function that it makes
"""
