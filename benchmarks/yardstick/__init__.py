"""The yardstick of cost models: times of random candidates of many tasks, measured on one machine, and what judges by
them.

Its files, in reading order:

- `tasks`: Which programs are measured: operators at shapes of real networks and pipelines, and random programs
- `tensor_tasks`: Which programs are measured where a CPU has tensor instructions: products and convolutions of halves
  and bytes
- `random_programs`: Small random programs of several stages, as text
- `data`: The file of measurements: a line of JSON a task
- `liked`: Candidates with tensor instructions: those that scores like, some that they like less, and random ones
- `collect`: Measuring: random candidates of each task, and those near the best known ones of the twelve operators
- `details`: Features that only models under comparison read: those of every statement, and relation curves of accesses
- `samples`: The measured candidates of a task as arrays: their features, which are computed anew, and their times
- `train`: Training the model that is installed with the package, on all of the yardstick's measurements
- `code_runs`: What lowered code does, as straight runs of instructions and how often each of them is executed
- `code_features`: Features of a candidate's lowered code: instructions by kind, what bounds its runs, and its heaviest
  run
- `lowered`: What features of lowered code add to those of the parametric program, on families of operators never seen
- `repeat`: Timing again what was disturbed: candidates that took much longer at one moment than at the other
- `folds`: Which candidates a model learns from, and on which it is judged then
- `contestants`: What is judged: scores without learning, and the model of the package
- `learning`: What models that are weighed against the package's have in common: the candidates that they learn from,
  and how trees are grown
- `statement_sums`: Models whose prediction is a sum over all statements of a program, that were weighed against the
  package's
- `network`: A small network that was weighed against the package's model
- `alternatives`: Models that were weighed against the package's: they learn from the same times in other ways
- `evaluation`: Judging contestants: on families of operators never seen, and with some records of the task itself
- `summary`: What verdicts say as figures: means over tasks, with bootstrap intervals
- `table`: The summaries of all models as a table to read, in Markdown
- `cores`: Whether other constants of a core rank any task worse: what a calibration has to pass
- `replay`: Whether the measurements still go with the code: every sketch replays, and every row is one of its
  candidates
"""
