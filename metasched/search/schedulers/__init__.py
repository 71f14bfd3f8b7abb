"""Task schedulers, a file each, which defines `scheduler`: what makes one from `SchedulerInputs`.

- `gradient`: the task from whose next batch most is expected, by Ansor's estimate of the objective's gradient
- `round_robin`: one task after another; the baseline
"""
