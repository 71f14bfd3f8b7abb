"""Strategies over a decision space, the task scheduler, and the tuning loop.

Its files, in reading order:

- `task`: What is tuned: a program for a target, in a space; and the fingerprint by which spaces are compared
- `task_protocol`: What a search needs of a task
- `space_protocol`: What a search strategy sees of a space: a few parametric programs, each a set of integer rows
- `arms/`: A space as searches see it: arms of rows, for its sketches and for what is known before anything is measured
- `guesses/`: Schedules chosen without measuring: expert traces, what other sizes had, and what the cost model likes
  best
- `seeds`: What a seed may be
- `session`: Tuning in steps: one task or several, with a given runner, strategy, model and database
- `budget/`: How long a search goes on: when it ends, what a batch may take, and what is tried where nothing better is
  found
- `several_tasks/`: What a session over several tasks goes by, and how one goes on while measurements of another are
  awaited
- `scheduler_registry`: Task schedulers by name: ours, a file each in `schedulers/`, and those of other packages
  (`metasched.schedulers`)
- `schedulers/`: Task schedulers, a file each, which defines `scheduler`: what makes one from `SchedulerInputs`
- `task_search`: The search of one task, step by step: propose, lower, measure what is new, record, learn
- `records/`: What searches take from records: their own as they go on, earlier ones of the task, and those of other
  tasks
- `proposed_candidates`: What a strategy proposed: candidates of arms that there are, each a row that its arm can have
- `checked_model`: A model whose scores are looked at before they are used: a number that is finite for each candidate
- `proposal`: The members of a batch: candidates that the strategy proposed, and guesses
- `short_list`: How many candidates of a search come first: what looks best without a doubt
- `strategy_registry`: Strategies by name: ours, a file each in `strategies/`, and those of other packages
  (`metasched.strategies`)
- `strategies/`: Strategies, a file each, which defines `strategy`: what makes one from `StrategyInputs`
- `rounds/`: What strategies that are guided by a model have in common: rounds, in which they look, breed, and choose a
  batch
- `strategy_helpers/`: What single strategies take, or a few: steps, chains, a diverse batch, a tree, a model for
  several
- `batch`: Measuring a batch: lower what is new, measure each code once, and record it as it finishes
- `contest`: The candidates that are timed again in turns at the end of a run, and others to estimate the noise
- `settling`: The end of a run: which candidates are timed again, how often, and how long that takes
- `telling`: How far the search of a task has come, told after each measurement
- `phases`: The parts of a run whose time is reported
- `report`: The result of tuning, for programs and for a person
- `paired_tuning`: Two sessions that tune in turns, batch by batch, so that disturbances of the machine affect both
"""
