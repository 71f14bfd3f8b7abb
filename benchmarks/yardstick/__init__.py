"""The yardstick of cost models: times of random candidates of many tasks, measured on one machine, and what judges by
them.

Its files, in reading order:

- `tasks`: Which programs are measured: operators at shapes of real networks and pipelines, and random programs
- `random_programs`: Small random programs of several stages, as text
- `data`: The file of measurements: a line of JSON a task
- `collect`: Measuring: random candidates of each task, and those near the best known ones of the twelve operators
"""
