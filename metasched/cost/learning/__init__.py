"""What is learned from measurements: trees on top of the estimate, how they are trained, and how well they rank.

Its files, in reading order:

- `task_times`: Measured candidates of a task: what models learn from
- `forest`: A forest of small regression trees as arrays, evaluated with NumPy alone
- `lightgbm_package`: LightGBM, imported when a model is first trained
- `trained`: A trained model: how much longer candidates take than the hand-made roofline says, learned from many tasks
- `training`: Training a model on measurements of many tasks
- `ranking`: How well scores rank the candidates of one task, whose times are known
- `figures`: What judgements of tasks say as figures: means over tasks, with bootstrap intervals
- `leaf_membership`: Which leaves of a trained model candidates reach: what they have in common, and what moves by
  their times
- `held_out`: How well models rank kinds of tasks that they were not trained on: each kind is left out in turn
- `importance`: Which features a trained model goes by, in groups
"""
