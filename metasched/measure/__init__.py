"""Measuring candidates in worker processes: build, check against the reference, time.

Its files, in reading order:

- `archive`: Arrays in a file, of every element type: those that NumPy's own format does not know are kept as their bits
- `place_values`: Which integers among a program's arguments say places: those that it compares with its iteration
  variables
- `inputs`: The data a program is checked and timed on
- `timing`: How often a kernel is called to know its time, in visits apart from one another, and when those made are
  enough
- `records`: Candidates and their measurements, as plain data
- `arithmetic`: How a schedule's results are computed, where it was allowed that they be computed otherwise than the
  program says
- `tolerance`: How far a correct kernel may be from the float64 reference, and when it must not differ at all
- `check`: Whether a candidate computes what its program says
- `compiling`: A scheduled program to machine code that another process can load, and when two candidates are the same
  code
- `parsed_programs`: Programs of candidates from their texts; those of the last ones are parsed once
- `protocol`: The messages between a parent and its workers: frames of JSON and bytes over a pipe
- `builder`: What a builder process does: a candidate's texts to machine code, and a program to its expected results
- `comparison`: How much faster one schedule is than another, from pairs of times, and how sure that is
- `load`: Machine code that another process compiled, called and timed here
- `candidate_code`: The machine code of a candidate in memory, called on a bench's data as a whole or in its two parts
- `surroundings`: What the kernels of a network are timed in: which caches their constants are still in when their turn
  comes again
- `rotation`: Constant arguments that a timed call finds where a network leaves them, and not where the call before did
- `candidate_timer`: What a runner process does: load a candidate's machine code, check it twice, time it, and check it
  again
- `resources`: What the system lacks or denies: its errors as sentences with a remedy, and how many it ended for want of
  memory
- `cores`: Which cores are for timing and which for building, where there are more than a kernel's threads take
- `fork_server`: The process that workers are forked from: it has imported what they need, so that each starts at once
- `worker_server`: The process that workers are forked from, seen from their parent: started when the first is wanted,
  and again when it has ended
- `process`: One worker process, seen from its parent: started, asked, watched, killed, replaced
- `quiet`: Nothing else runs while a candidate is timed: work and timing take turns
- `recently_built`: The machine code of the candidates that were built last, so that measuring one of them again builds
  nothing
- `expected_results`: What the candidates of a program are checked against: its data and expected results, in a file,
  computed once
- `job`: A candidate on its way through a runner, and the order in which those of a batch are visited
- `temporary`: Temporary folders that go with the process that made them, or, when it was killed, with the next one that
  makes one
- `worker`: A worker process, forked from `python -m metasched.measure.worker SETTINGS` (`fork_server`)
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
