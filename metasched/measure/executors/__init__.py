"""Where candidates are measured, a file each, which defines `executor`: what makes a runner from `ExecutorInputs`.

- `local`: worker processes of this machine
- `dask`: the machines of a dask cluster
"""
