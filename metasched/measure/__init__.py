"""Measuring candidates in worker processes: build, check against the reference, time.

Its files, in reading order:

- `checking/`: Whether a candidate computes what its program says: on which data, against what, and how far from it
- `timing`: How often a kernel is called to know its time, in visits apart from one another, and when those made are
  enough
- `records`: Candidates and their measurements, as plain data
- `compiling`: A scheduled program to machine code that another process can load, and when two candidates are the same
  code
- `workers/`: Worker processes: how they are started and asked, and what builders and runners do in them
- `comparison`: How much faster one schedule is than another, from pairs of times, and how sure that is
- `surroundings`: What the kernels of a network are timed in: which caches their constants are still in when their turn
  comes again
- `quiet`: Nothing else runs while a candidate is timed: work and timing take turns
- `recently_built`: The machine code of the candidates that were built last, so that measuring one of them again builds
  nothing
- `expected_results`: What the candidates of a program are checked against: its data and expected results, in a file,
  computed once
- `job`: A candidate on its way through a runner, and the order in which those of a batch are visited
- `building`: What builders make for a runner, each request on whichever is free: what is lowered is compiled ahead
- `runner`: Measuring candidates on this machine: builders compile side by side, then one runner checks and times alone
- `machines`: On which machines a runner measures: on how many at once, and for which targets
- `executor_registry`: Executors by name or URL: ours, a file each in `executors/`, and those of other packages
  (`metasched.executors`)
- `cluster/`: Measuring on several machines, which a dask cluster connects
- `executors/`: Where candidates are measured, a file each, which defines `executor`: what makes a runner from
  `ExecutorInputs`
- `paired_timing`: Which of two schedules is faster, and how sure that is: both are timed in turns, so that noise hits
  both
"""
