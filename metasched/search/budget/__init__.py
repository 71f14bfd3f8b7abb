"""How long a search goes on: when it ends, what a batch may take, and what is tried where nothing better is found.

Its files, in reading order:

- `goal`: When a run ends: after so many trials, so many seconds, or so many trials without a gain
- `room`: What a batch may take: how many trials, and how long
- `pace`: How long candidates of a task take, so that no more are begun than there is time for
- `stagnation`: Whether a search has stagnated: for how many trials it has found nothing that is faster by more than
  noise
- `wider_strategy`: A strategy with random draws beside it, for a search that has stagnated: what it breeds comes from
  what it knows
"""
