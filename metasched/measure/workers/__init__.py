"""Worker processes: how they are started and asked, and what builders and runners do in them.

Its files, in reading order:

- `parsed_programs`: Programs of candidates from their texts; those of the last ones are parsed once
- `protocol`: The messages between a parent and its workers: frames of JSON and bytes over a pipe
- `builder`: What a builder process does: a candidate's texts to machine code, and a program to its expected results
- `load`: Machine code that another process compiled, called and timed here
- `candidate_code`: The machine code of a candidate in memory, called on a bench's data as a whole or in its two parts
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
- `temporary`: Temporary folders that go with the process that made them, or, when it was killed, with the next one that
  makes one
- `worker`: A worker process, forked from `python -m metasched.measure.workers.worker SETTINGS` (`fork_server`)
"""
