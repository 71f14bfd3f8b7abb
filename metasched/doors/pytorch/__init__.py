"""`torch.compile(model, backend="metasched")`: graphs of PyTorch's core ATen operators as networks.

Its files, in reading order:

- `tensors`: PyTorch's types and tensors as ours: the same memory, dimensions in the order in which they lie there
- `site`: An operator of a graph as the functions of `ops/` see it
- `registry`: The operators that are known, found by their files
- `numpy_calls`: Operators as functions of NumPy's names say them, which the door `ms.jit` traces
- `ops/`: What each operator computes: a file for each family
- `lowering`: From a graph of ATen operators to a network's graph
- `shared_results`: Results of a graph that share memory, as they do in PyTorch
- `subgraphs`: Parts of a graph that run as networks; PyTorch runs the rest
- `compiled`: What PyTorch calls: made at the first call, with weights as constants
- `optimizers`: Steps of optimizers that PyTorch does not count as writes
- `decompositions`: What PyTorch's core operators are made of, with results that lie in memory as PyTorch's own do
- `integer_inputs`: Integers that a graph only computes with, such as factors, and takes as tensors
- `backend`: The backend of `torch.compile`, and what it would do with a model
"""
