"""Which candidates are worth measuring: features of a whole population, and the models that score them.

Its files, in reading order:

- `core`: The few constants of a CPU core that the hand-made terms use
- `program/`: What estimates and features need to know of a scheduled program, extracted once
- `estimate/`: The estimate by hand, over a population: what statements touch, move and compute, and the cycles that
  bound them
- `feature`: Declaring features of a statement, with the functions that compute them
- `groups`: Features of one statement over a population: arithmetic, loops, vectors, registers, parallelism, cycles
- `memory`: Features of the buffers a statement touches, over a population
- `features`: Features of scheduled programs, as arrays over a population
- `baseline`: Scores that need no measurement
- `expectation`: What the hand-made roofline expects of a scheduled program, and which of its terms limits that
- `learning/`: What is learned from measurements: trees on top of the estimate, how they are trained, and how well
  they rank
- `model`: The learned cost model: what many tasks taught, adapted to the task at hand
- `model_registry`: Cost models by name, a file each in `models/`, and those that users have trained, by the path of
  their text
- `models/`: Cost models, a file each, which defines `model`: what makes one from a seed
"""
