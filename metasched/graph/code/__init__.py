"""Machine code of a graph's tasks: how they are scheduled, built by processes, and kept on disk.

Its files, in reading order:

- `choices`: What decides how a task is scheduled: a trace that is known for it, or that it runs as it is written
- `step_code`: Machine code of a task as data: its arguments and its bytes
- `task_code`: Machine code of a task: its program with a schedule, divided into what is computed of constants once, and
  a step
- `default_choice`: The schedule of a program that nothing is known for
- `archive`: Machine code of a task as bytes: JSON that says what it is, and the code itself
- `owned_files`: Files of a cache that are trusted: this user's, in a folder of this user's, which nobody else can write
- `cache`: Machine code of tasks on disk: a file each, in a folder of the user's cache that only its owner can write
- `builder_worker`: A builder process of networks: `python -m metasched.graph.code.builder_worker SETTINGS`
- `building`: Builder processes: machine code of many tasks side by side, the longest programs first
- `kernels`: Machine code for the tasks of a graph: from the cache, or made by their choices or the guess
"""
