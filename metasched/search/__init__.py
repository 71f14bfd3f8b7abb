"""Strategies over a decision space, the task scheduler, and the tuning loop.

Its files, in reading order:

- `task`: What is tuned: a program for a target, in a space; and the fingerprint by which spaces are compared
- `searched`: What a search needs of a task
- `task_progress`: How far each task of a session is: what schedulers and objectives go by
- `objectives`: What a session over several tasks minimises: the objectives f1 to f4 of Ansor (Zheng et al. 2020,
  section 6)
- `task_scheduler`: Task schedulers by name: ours, a file each in `schedulers/`, and those of other packages
  (`metasched.schedulers`)
- `schedulers/`: Task schedulers, a file each, which defines `scheduler`: what makes one from `SchedulerInputs`
- `stagnation`: Whether a search has stagnated: for how many trials it has found nothing that is faster by more than
  noise
- `wider_strategy`: A strategy with random draws beside it, for a search that has stagnated: what it breeds comes from
  what it knows
- `pace`: How long candidates of a task take, so that no more are begun than there is time for
- `goal`: When a run ends: after so many trials, so many seconds, or so many trials without a gain
- `room`: What a batch may take: how many trials, and how long
- `session`: Tuning in steps: one task or several, with a given runner, strategy, model and database
- `waiting`: Waiting for measurements while other tasks of the session go on
- `side_by_side`: Steps of several tasks side by side, where candidates are measured on more than one machine
- `task_search`: The search of one task, step by step: propose, lower, measure what is new, record, learn
- `batch`: Measuring a batch: lower what is new, measure each code once, and record it as it finishes
- `proposal`: The members of a batch: candidates that the strategy proposed, and guesses
- `strategy`: Strategies by name: ours, a file each in `strategies/`, and those of other packages
  (`metasched.strategies`)
- `strategies/`: Strategies, a file each, which defines `strategy`: what makes one from `StrategyInputs`
- `space_protocol`: What a search strategy sees of a space: a few parametric programs, each a set of integer rows
- `arms`: A `Space` in the form that searches use: an arm for each variant of each sketch, and for what is known
  beforehand
- `sketch_arm`: A sketch in the form that searches use: rows and their features
- `recent_features`: Features of the rows that were asked for lately: a search asks for those of a row several times
- `carried_numbers`: The numbers of neighbours in one structure: each neighbour's own, or some near them that the model
  clearly prefers
- `reduction_parts`: The reductions of a program, each with what belongs to it, as programs of their own
- `carried`: What was found for the nearest programs of the same kind, carried over to a space before anything is
  measured
- `locator`: Finding the candidates of records in a space, by the outlines of their traces, many at a time
- `population`: Array operations on populations: rows of integers
- `selection`: The rows scored in one round, and the selection of a batch from them
- `round`: One round of a search: what a strategy looks at before it proposes a batch, scored by the model
- `outlook`: What a round begins with that was looked at before the times of the last batch were known
- `structure_breeding`: Which structures a round looks at: those measured fastest, some drawn once for all, and
  offspring of the best
- `batch_choice`: The choice of a batch from a round: high scores that are unlike one another, new structures, random
  picks
- `descent`: Steps from the best that were measured: the neighbours of a few candidates, from as near as there are any
- `diverse`: A diverse batch by submodular choice, as in AutoTVM (Chen et al. 2018, section 5.2)
- `guided`: What strategies that are guided by a model have in common: they learn, look, choose, and fill a batch
- `chains`: Markov chains over the rows of some arms, which walk together under a model's score
- `walk_states`: What a strategy keeps between batches, such as the positions of its chains
- `shared_model`: One model that several strategies train, each for itself: it is trained again for whoever asks after
  another did
- `yielding_model`: A model that lets other tasks of a session go on, whose results are there, before it computes
- `decision_tree`: A tree of decisions with what is known of each: visits, and the scores of what was found below it
- `looks`: What candidates look like to a model: those that look the same have the same code, but for rare exceptions
- `history`: The observations of a search, as the arrays that a model and a population need
- `known`: What is recorded of a task, as a search asks for it: by trace and by code, without reading whole records
- `other_names`: Records of a program with other names, or of older versions of primitives, translated to one program's
  own
- `resume`: Resuming from records: a strategy observes them in the batches in which they were made
- `earlier`: What a search takes from earlier ones of the same program and target, in other spaces and with other
  versions
- `record_features`: Features of recorded candidates of any program, from the texts of their records
- `feature_cache`: Features of measured candidates, kept in the user's cache folder, so that none is worked out twice
- `other_tasks`: What other tasks teach the model of one: the records that a database has of them, as features and times
- `recorded_tasks`: All that a database has of its tasks, as features and times: what `metasched model` trains on, and
  judges by
- `contest`: The end of a run: the best candidates are timed again in turns, and some others to estimate the noise
- `paired_tuning`: Two sessions that tune in turns, batch by batch, so that disturbances of the machine affect both
- `guess`: The best guess for a program: a schedule chosen without measuring
- `expert_guess`: The expert traces that can be replayed on a program, and the best of them by the roofline
- `favourite`: The candidate of a space that the cost model scores highest before anything is measured
- `report`: The result of tuning, for programs and for a person
- `phases`: The parts of a run whose time is reported
"""
