"""What a session over several tasks goes by, and how one goes on while measurements of another are awaited.

Its files, in reading order:

- `task_progress`: How far each task of a session is: what schedulers and objectives go by
- `objectives`: What a session over several tasks minimises: the objectives f1 to f4 of Ansor (Zheng et al. 2020,
  section 6)
- `waiting`: Waiting for measurements while other tasks of the session go on
- `side_by_side`: Steps of several tasks side by side, where candidates are measured on more than one machine
- `yielding_model`: A model that lets other tasks of a session go on, whose results are there, before it computes
"""
