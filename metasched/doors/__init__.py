"""Other ways in to networks: Python functions of NumPy's names, and PyTorch's modules, as graphs.

Its files, in reading order:

- `node_calls`: Node types of networks, called as functions of values; expressions of any operands
- `exact_division`: Whole quotients and remainders of f64
- `gamma_functions`: The logarithm of the gamma function, its derivative, and the inverse of the error function
- `indexed_places`: Elements at places that several arrays of indices name together: read, and written
- `ordered`: Elements in order, and places among elements that are in order
- `jit/`: `ms.jit`: a Python function of arrays, traced once for each combination of shapes and types
- `pytorch/`: `torch.compile(model, backend="metasched")`: graphs of PyTorch's core ATen operators as networks
"""
