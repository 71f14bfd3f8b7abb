"""Tuning networks: sessions over their tasks, what is recorded of them, and what is the faster in their calls.

Its files, in reading order:

- `recorded`: What is recorded for the tasks of a network: their best times, and traces as choices
- `settling`: Tuned kernels in the network's own call, in turns with those that ran before: what is slower there is not
  used
- `strip_turns`: Groups of reductions in a network's own call: each in strips by one kernel, in turns with its kernels
  apart
- `view`: Ways to watch networks being tuned: a table that changes on a terminal or in a notebook, a line now and then
  elsewhere
- `graphs`: Tuning networks: one session over the tasks of one or several, whose order a task scheduler chooses
- `member`: A network of one size, as tuning sees it
- `networks`: Tuning networks together: one session over the kernels of all, each of which is timed in its own call at
  the end
"""
