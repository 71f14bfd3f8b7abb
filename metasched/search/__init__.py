"""Strategies over a decision space, the task scheduler, and the tuning loop.

Its files, in reading order:

- `task`: What is tuned: a program for a target, in a space; and what makes two spaces the same
- `session`: Tuning in steps: one task or several, with the runner, the strategy, the model and the database that one
  gives
- `task_search`: The search of one task, step by step: propose, lower, measure what is new, record, learn
- `batch`: Measuring a batch: lower what is new, measure each code once, and record it as it finishes
- `proposal`: What a batch is made of: candidates that the strategy proposed, and guesses
- `strategy`: Strategies by name: ours, a file each in `strategies/`, and those of other packages
  (`metasched.strategies`)
- `strategies/`: Strategies, a file each, which defines `strategy`: what makes one from `StrategyInputs`
- `space_protocol`: What a search strategy sees of a space: a few parametric programs, each a set of integer rows
- `arms`: A `Space` as the search sees it: an arm for each variant of each sketch
- `locator`: Which candidates of a space records are of: by the outlines of their traces, a population at a time
- `population`: Array operations on populations: rows of integers
- `selection`: All rows scored in one round, and which of them make the batch
- `history`: What has been measured, as the arrays that a model and a population need
- `known`: What is recorded of a task, as a search asks for it: by trace and by code, without reading whole records
- `other_names`: Records of a program under other names, and of older versions of primitives, said as this program would
  say them
- `resume`: Going on from what is recorded: a strategy is told of it in the batches in which it came
- `earlier`: What a search has from earlier ones of the same program and target: in other spaces, and with other
  versions
- `contest`: The end of a run: the best are timed again in turns, and some of the others for the noise
- `paired_tuning`: Two sessions at once, batch by batch in turns, so that what disturbs the machine hits both
- `guess`: The best guess for a program: a schedule chosen without measuring
- `expert_guess`: The expert traces that can be replayed on a program, and the best of them by the roofline
- `favourite`: What the untrained cost model likes best of a space
- `report`: What came of tuning, for programs and for a person
- `phases`: The parts of a run whose time is told
- `progress`: What the tuning loop tells whoever is watching
- `progress_text`: What a person reads of times and of where a run stands
- `progress_view`: Ways to watch a tuning run: a line that changes on a terminal or in a notebook, a line now and then
  elsewhere
"""
